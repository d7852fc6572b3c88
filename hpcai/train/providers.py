"""Whose kernels compute the layers of a network: the vendor's, or ours, in whole or where they are faster.

With ours, batch norm is computed together with the sum and the ReLU that follow it, where there is a kernel for that.
"""

from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Any

from torch import Tensor, nn

from hpcai.kernels import operators
from hpcai.kernels.spec import DIRECTIONS
from hpcai.models.fused import fuse
from hpcai.models.module import Layers

Forward = Callable[[Tensor], Tensor]
Choice = Mapping[str, Collection[str]]  # by the name of a layer the directions that are ours; all of those not named


def take_over(module: Layers, choice: Choice | None = None) -> None:
    """Have our kernels compute a network; once it is placed and in its precision, before its replica is made."""
    for name, part in module.named_modules():
        ours = frozenset((choice or {}).get(name, DIRECTIONS))
        # Partial functions, not closures: a deep copy of the module has to compute with its own layers.
        if ours and isinstance(part, nn.Conv2d):
            part.forward = partial(_convolved, part, ours, part.forward)  # type: ignore[method-assign]
        elif ours and isinstance(part, nn.Linear):
            part.forward = partial(_multiplied, part, ours, part.forward)  # type: ignore[method-assign]
    fuse(module)


def give_back(module: Layers) -> None:
    """Have the vendor's kernels compute a network that ours have taken over."""
    for part in module.modules():
        forward: Any = getattr(part, "forward", None)
        if isinstance(forward, partial) and forward.func in (_convolved, _multiplied):
            part.forward = forward.args[2]
    module.steps = list(module.as_planned)


def _convolved(part: nn.Conv2d, ours: frozenset[str], vendors: Forward, images: Tensor) -> Tensor:
    y = operators.convolution(images, part.weight, part, ours)
    return y if part.bias is None else y.add_(part.bias.view(1, -1, 1, 1))


def _multiplied(part: nn.Linear, ours: frozenset[str], vendors: Forward, rows: Tensor) -> Tensor:
    y = operators.dense(rows, part.weight, ours)
    return y if part.bias is None else y.add_(part.bias)
