"""The custom operators without torch's dispatcher, whose Python path costs a tenth of a millisecond a call.

Under torch.compile, autocast or a dispatch mode they use the dispatcher all the same.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable
from torch.utils._python_dispatch import _get_current_dispatch_mode

from . import library, normalisation, products

KINDS = (Tensor, nn.Parameter)  # other tensor classes need the dispatcher


def applies(x: Tensor, other: Tensor | None = None) -> bool:
    """Whether tensors need no dispatcher: as `plain`, and no autocast."""
    return plain(x, other) and not torch.is_autocast_enabled(x.device.type)


def plain(x: Tensor, other: Tensor | None = None) -> bool:
    """Whether there is no compilation, mode, subclass or lazy negation.

    The dispatcher resolves views that are negated when read.
    """
    return (
        not torch.compiler.is_compiling()
        and _get_current_dispatch_mode() is None
        and type(x) in KINDS
        and not (x.is_neg() or (other is not None and other.is_neg()))
    )


def convolution(x: Tensor, w: Tensor, *rest: Any) -> Tensor:
    """As the operator `convolution`."""
    made: Tensor = Convolution.apply(x, w, rest) if torch.is_grad_enabled() else library.computed(x, w, *rest)
    return made


def dense(x: Tensor, w: Tensor, custom: int) -> Tensor:
    """As the operator `dense`."""
    made: Tensor = Dense.apply(x, w, (custom,)) if torch.is_grad_enabled() else library.multiplied(x, w, custom)
    return made


def batch_norm(*given: Any) -> Tensor:
    """y as of the operator `batch_norm`, whose arguments are followed by the running moments."""
    made: Tensor = BatchNorm.apply(*given)
    return made


# The profiler shows the names of these classes.
class Convolution(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, w: Tensor, rest: Sequence[Any]) -> Tensor:
        ctx.rest = rest
        ctx.save_for_backward(x, w)
        return library.computed(x, w, *rest)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        (x, w), (*window, custom), wanted = ctx.saved_tensors, ctx.rest, ctx.needs_input_grad[:2]
        found = library.gradients_of_convolution(gradients[0].resolve_neg(), x, w, window, custom, wanted, by=products)
        return *found, None


class Dense(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, w: Tensor, rest: Sequence[Any]) -> Tensor:
        ctx.rest = rest
        ctx.save_for_backward(x, w)
        return library.multiplied(x, w, *rest)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        (x, w), (custom,), wanted = ctx.saved_tensors, ctx.rest, ctx.needs_input_grad[:2]
        return *library.gradients_of_dense(gradients[0].resolve_neg(), x, w, custom, wanted, by=products), None


class BatchNorm(Function):
    @staticmethod
    def forward(ctx: Any, *given: Any) -> Tensor:
        made = normalisation.computed(*given)
        normalisation.save(ctx, given[:-1], made)
        return made[0]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        return *normalisation.gradients(ctx, gradients[0].resolve_neg(), normalisation.computed_backward), None
