"""int8 layers: forward product of bytes by custom kernels; gradients by custom or vendor kernels."""

from collections.abc import Callable, Collection
from functools import partial

from torch import Tensor, nn

from hpcai.kernels import operators
from hpcai.models.sequence_layers import SharedEmbedding


def quantise(module: nn.Module) -> None:
    """Make all layers int8 layers, with gradients by the vendor's kernels."""
    for part in module.modules():
        if isinstance(part, nn.Conv2d | nn.Linear):
            set_gradients(part, frozenset())


def is_quantised(part: nn.Module) -> bool:
    """Whether a layer is an int8 layer."""
    forward = vars(part).get("forward")
    return isinstance(forward, partial) and forward.func in (_convolved, _multiplied)


def set_gradients(part: nn.Module, custom: Collection[str]) -> None:
    """Make a layer an int8 layer whose gradients in the directions `custom` are by custom kernels."""
    # Partial functions, not closures: a deep copy of the module has to compute with its own layers.
    function: Callable[..., Tensor] = _convolved if isinstance(part, nn.Conv2d) else _multiplied
    part.forward = partial(function, part, frozenset(custom))


def _convolved(part: nn.Conv2d, custom: frozenset[str], images: Tensor) -> Tensor:
    y = operators.convolution_int8(images, part.weight, part, custom)
    return y if part.bias is None else y.add_(part.bias.view(1, -1, 1, 1))


def _multiplied(part: nn.Linear, custom: frozenset[str], rows: Tensor) -> Tensor:
    if isinstance(part, SharedEmbedding) and part.looks_up(rows):
        return part.rows(rows)
    y = operators.dense_int8(rows, part.weight, custom)
    # y is a view of one of several results: autograd forbids changing it in place, as a sum that follows does
    return y.clone() if part.bias is None else y + part.bias
