"""Layers whose forward product is one of bytes, always by our kernels; their gradients are ours or the vendor's."""

from collections.abc import Callable, Collection
from functools import partial

from torch import Tensor, nn

from hpcai.kernels import operators


def quantise(module: nn.Module) -> None:
    """Have all layers compute so, with the vendor's gradients."""
    for part in module.modules():
        if isinstance(part, nn.Conv2d | nn.Linear):
            set_gradients(part, frozenset())


def is_quantised(part: nn.Module) -> bool:
    """Whether a layer computes so."""
    forward = vars(part).get("forward")
    return isinstance(forward, partial) and forward.func in (_convolved, _multiplied)


def set_gradients(part: nn.Module, ours: Collection[str]) -> None:
    """Have a layer compute so, with those directions of its gradients by our kernels."""
    # Partial functions, not closures: a deep copy of the module has to compute with its own layers.
    function: Callable[..., Tensor] = _convolved if isinstance(part, nn.Conv2d) else _multiplied
    part.forward = partial(function, part, frozenset(ours))


def _convolved(part: nn.Conv2d, ours: frozenset[str], images: Tensor) -> Tensor:
    y = operators.convolution_int8(images, part.weight, part, ours)
    return y if part.bias is None else y.add_(part.bias.view(1, -1, 1, 1))


def _multiplied(part: nn.Linear, ours: frozenset[str], rows: Tensor) -> Tensor:
    y = operators.dense_int8(rows, part.weight, ours)
    return y if part.bias is None else y + part.bias  # y is a view: autograd changes no view of one of several results
