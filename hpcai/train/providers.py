"""Whose kernels compute the layers of a network: the vendor's, or ours, in whole or where they are faster.

With ours, batch norm is computed together with the sum and the ReLU that follow it, where there is a kernel for that.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from torch import Tensor, nn

from hpcai.kernels import operators
from hpcai.kernels.spec import DIRECTIONS, FORWARD
from hpcai.models.fused_layers import fuse
from hpcai.models.module import Layers
from hpcai.train import quantised

Forward = Callable[[Tensor], Tensor]
Size = tuple[int, ...]  # of a layer's input, without its batch
Directions = Mapping[Size, Collection[str]]  # of a layer those that are ours, by its input


@dataclass(frozen=True)
class Choice:
    """What is ours: by the name of a layer and the size of its input the directions, and batch norms by their names."""

    products: Mapping[str, Directions]
    normalisations: Collection[str]


def take_over(module: Layers, choice: Choice | None = None) -> None:
    """Have our kernels compute a network, or what is chosen of it; once it is placed and in its precision.

    Before its first step. A layer of which nothing is ours stays the vendor's as it is.
    """
    convolved: dict[str, Callable[[Tensor], bool]] = {}
    for name, part in module.named_modules():
        ours = None if choice is None else choice.products.get(name, {})
        if ours is not None and not any(ours.values()):
            continue
        # Partial functions, not closures: a deep copy of the module has to compute with its own layers.
        if quantised.is_quantised(part):
            quantised.set_gradients(part, DIRECTIONS)
        elif isinstance(part, nn.Conv2d):
            part.forward = partial(_convolved, part, ours, part.forward)  # type: ignore[method-assign]
            convolved[name] = partial(_forward_is_ours, ours)
        elif isinstance(part, nn.Linear):
            part.forward = partial(_multiplied, part, ours, part.forward)  # type: ignore[method-assign]
    fuse(module, None if choice is None else choice.normalisations, convolved)


def give_back(module: Layers) -> None:
    """Have the vendor's kernels compute a network that ours have taken over."""
    for part in module.modules():
        if quantised.is_quantised(part):
            quantised.set_gradients(part, ())
        forward: Any = getattr(part, "forward", None)
        if isinstance(forward, partial) and forward.func in (_convolved, _multiplied):
            part.forward = forward.args[2]
    module.steps = list(module.as_planned)


@contextmanager
def lent(module: Layers) -> Iterator[None]:
    """While the block runs the vendor's kernels compute a network, whosever do before and after.

    Not one that multiplies bytes: where its batch norms are rounded otherwise, the next layer's bytes are others.
    """
    if any(quantised.is_quantised(part) for part in module.modules()):
        yield
        return
    forwards = [(part, vars(part)["forward"]) for part in module.modules() if "forward" in vars(part)]
    steps = module.steps
    give_back(module)
    try:
        yield
    finally:
        for part, forward in forwards:
            part.forward = forward
        module.steps = steps


def _forward_is_ours(of: Directions | None, x: Tensor) -> bool:
    return FORWARD in _ours(of, x)


def _ours(of: Directions | None, x: Tensor) -> Collection[str]:
    """The directions of a layer that are ours where its input is x."""
    return DIRECTIONS if of is None else of.get(tuple(x.shape[1:]), ())


def _convolved(part: nn.Conv2d, of: Directions | None, vendors: Forward, images: Tensor) -> Tensor:
    ours = _ours(of, images)
    if not ours:
        return vendors(images)
    y = operators.convolution(images, part.weight, part, ours)
    return y if part.bias is None else y.add_(part.bias.view(1, -1, 1, 1))


def _multiplied(part: nn.Linear, of: Directions | None, vendors: Forward, rows: Tensor) -> Tensor:
    ours = _ours(of, rows)
    if not ours:
        return vendors(rows)
    y = operators.dense(rows, part.weight, ours)
    return y if part.bias is None else y.add_(part.bias)
