"""Networks by custom kernels, layer by layer and by residual blocks, and what a step of them is compared on."""

import math
from copy import deepcopy
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.overrides import TorchFunctionMode

from hpcai import networks
from hpcai.models.joined_layers import separate
from hpcai.models.module import Network, build
from hpcai.train.providers import use_custom

SIDE, CLASSES = 20, 10
BLOCKS = {"resnet8": 4, "resnet14": 7, "resnet18": 9, "resnet50": 17}  # residual blocks, and the first layer
GRAPHS = {name: networks.build(name, (SIDE, SIDE), 3, CLASSES) for name in BLOCKS}
BATCH = 4


def pair(name: str, dtype: torch.dtype = torch.float32) -> tuple[Network, Network]:
    """A network by custom kernels, layer by layer and by blocks."""
    network: Network = build(GRAPHS[name], 3).to(dtype).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    use_custom(network)
    apart = deepcopy(network)
    separate(apart)
    return apart, network


def images(dtype: torch.dtype = torch.float32, seed: int = 1) -> Tensor:
    drawn = torch.randn(BATCH, 3, SIDE, SIDE, generator=torch.Generator().manual_seed(seed)).to(dtype)
    return drawn.contiguous(memory_format=torch.channels_last)


class ReluInputs(TorchFunctionMode):
    """Takes the smallest magnitude of an input of ReLU."""

    least = math.inf

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if function in (torch.relu, torch.relu_):
            self.least = min(self.least, args[0].abs().min().item())
        return function(*args, **kwargs or {})


@cache
def clear_seed(name: str) -> int:
    """The seed of images whose inputs of ReLU are furthest from zero, where rounding would change a gradient by all."""
    network, least = build(GRAPHS[name], 3).double(), {}
    for seed in range(12):
        with torch.no_grad(), ReluInputs() as inputs:
            network(images(torch.float64, seed))
        least[seed] = inputs.least
    return max(least, key=least.__getitem__)


def step(network: nn.Module, x: Tensor) -> list[Tensor]:
    """Loss, all gradients, that of the images if it is wanted, and weights with statistics."""
    loss = cross_entropy(network(x), torch.arange(len(x)))
    wanted = [*network.parameters(), *([x] if x.requires_grad else [])]
    return [loss, *torch.autograd.grad(loss, wanted), *network.state_dict().values()]
