"""Our operators without torch's dispatcher, whose way through Python costs a tenth of a millisecond a call.

Where somebody listens, torch.compile, autocast, or a mode that watches operators, they go through it all the same.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable
from torch.utils._python_dispatch import _get_current_dispatch_mode

from . import library, normalising, products

KINDS = (Tensor, nn.Parameter)  # others listen


def applies(x: Tensor, other: Tensor | None = None) -> bool:
    """Whether nobody listens to what is called with such tensors, and their memory holds their values.

    A view of torch that is negative only when it is read is resolved by the dispatcher.
    """
    return (
        not torch.compiler.is_compiling()
        and _get_current_dispatch_mode() is None
        and type(x) in KINDS
        and not torch.is_autocast_enabled(x.device.type)
        and not (x.is_neg() or (other is not None and other.is_neg()))
    )


def convolution(x: Tensor, w: Tensor, *rest: Any) -> Tensor:
    """As the operator of that name."""
    made: Tensor = Convolution.apply(x, w, rest) if torch.is_grad_enabled() else library.computed(x, w, *rest)
    return made


def dense(x: Tensor, w: Tensor, ours: int) -> Tensor:
    """As the operator of that name."""
    made: Tensor = Dense.apply(x, w, (ours,)) if torch.is_grad_enabled() else library.multiplied(x, w, ours)
    return made


def batch_norm(*given: Any) -> tuple[Tensor, Tensor, Tensor]:
    """As the operator of that name."""
    made: tuple[Tensor, Tensor, Tensor] = BatchNorm.apply(*given)
    return made


# The names of these are what the profiler shows.
class Convolution(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, w: Tensor, rest: Sequence[Any]) -> Tensor:
        ctx.rest = rest
        ctx.save_for_backward(x, w)
        return library.computed(x, w, *rest)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        (x, w), (*window, ours), wanted = ctx.saved_tensors, ctx.rest, ctx.needs_input_grad[:2]
        found = library.gradients_of_convolution(gradients[0].resolve_neg(), x, w, window, ours, wanted, by=products)
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
        (x, w), (ours,), wanted = ctx.saved_tensors, ctx.rest, ctx.needs_input_grad[:2]
        return *library.gradients_of_dense(gradients[0].resolve_neg(), x, w, ours, wanted, by=products), None


class BatchNorm(Function):
    @staticmethod
    def forward(ctx: Any, *given: Any) -> tuple[Tensor, Tensor, Tensor]:
        made = normalising.computed(*given)
        normalising.keep(ctx, given, made)
        return made

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        return normalising.gradients(ctx, gradients[0].resolve_neg(), normalising.computed_backward)
