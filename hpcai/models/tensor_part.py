"""The module of a rank's part of a network: shards of its channels, a stage of its layers, or both.

It has the parameters that the whole network would have.
"""

from typing import Any

import torch
from torch import Tensor, nn

from hpcai.models.module import Layers, Network, initialise, submodule
from hpcai.networks.graph import Graph
from hpcai.networks.tensor_parallel import Divided, TensorPart

DIMENSION = {"outputs": 0, "channels": 0, "inputs": 1}


def build_part(whole: Graph, part: TensorPart, seed: int) -> Network:
    """A classifier's part on the CPU: its share of the parameters that `build` draws for the whole network.

    Layers are drawn whole one after the other, so that no rank holds more than one whole layer.
    """
    network = Network(part.graph).to_empty(device="cpu")
    network.replicated, network.uncounted = part.replicated, part.replicated if part.rank else ()
    fill(network, whole, part, torch.Generator().manual_seed(seed))
    return network


def fill(network: Layers, whole: Graph, part: TensorPart, generator: torch.Generator) -> None:
    """Initialise a part's parameters and statistics from those of the whole network's layers."""
    having = {layer.lender: layer.name for layer in whole.layers if layer.name in part.graph.parameters}
    for layer in whole.layers:
        if layer.name in whole.parameters:  # drawn by every rank, so that each layer gets the same numbers
            drawn = submodule(layer.op, whole.shapes[layer.inputs[0]]).to_empty(device="cpu")
            initialise(drawn, generator)
            if name := having.get(layer.name):
                copy_share(drawn, network.get_submodule(name), part.divided.get(name), part.rank, part.ranks)


@torch.no_grad()
def copy_share(whole: nn.Module, own: nn.Module, divided: Divided | None, rank: int, ranks: int) -> None:
    """Copy a rank's share of a layer's parameters and statistics."""
    targets: dict[str, Any] = dict(own.state_dict(keep_vars=True))
    for name, value in whole.state_dict().items():
        targets[name].copy_(share(value, divided, rank, ranks))


def share(value: Tensor, divided: Divided | None, rank: int, ranks: int) -> Tensor:
    """A rank's share of a parameter or statistic; the whole of what has no channels."""
    if divided is None or value.ndim == 0:
        return value
    dimension = DIMENSION[divided.by]
    first, end = divided.own(rank, ranks, value.shape[dimension])
    sections = [each.narrow(dimension, first, end - first) for each in value.chunk(divided.sections, dimension)]
    return sections[0] if divided.sections == 1 else torch.cat(sections, dimension)
