"""int8 products as torch operators: fp32 inputs and results; gradients of the dequantised product.

Forward, pictures (rows of a matrix) and filters become bytes with a scale each (kernels/quantise), the sums are exact.
Backward, rounding counts as the identity (straight-through: Bengio and others, arXiv:1308.3432, section 4), and the
gradients are fp32 products with what the bytes stand for: those of the function that was computed.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.library import Library, register_autograd
from torch.utils.flop_counter import register_flop_formula

from ..quantise import MOST_TERMS
from . import library, products
from .library import NAME, WINDOW

RESULT = "(Tensor, Tensor, Tensor)"  # y, the scales of x and those of w
FORMS = (
    f"convolution_int8(Tensor x, Tensor w, {WINDOW}, int custom) -> {RESULT}",
    f"dense_int8(Tensor x, Tensor w, int custom) -> {RESULT}",
    "nearest(Tensor x, Tensor scales) -> Tensor",
)
_library = Library(NAME, "FRAGMENT")
_ours: Any = torch.ops.hpcai
Three = tuple[Tensor, Tensor, Tensor]


def _convolved(x: Tensor, w: Tensor, *rest: Any) -> Three:
    *window, _ = rest
    _check(x, w)
    return products.convolution_bytes(x, w, *window)


def _multiplied(x: Tensor, w: Tensor, custom: int) -> Three:
    _check(x, w)
    return products.dense_bytes(x, w)


def _check(x: Tensor, w: Tensor) -> None:
    if x.dtype != torch.float32 or w.dtype != torch.float32:
        raise RuntimeError(f"int8 products of {x.dtype} and {w.dtype}; allowed: torch.float32, which is rounded")
    if (terms := w[0].numel()) > MOST_TERMS:
        raise RuntimeError(f"int8 products of {terms} terms; allowed: at most {MOST_TERMS}, whose sums int32 holds")


def _keep(ctx: Any, inputs: tuple[Any, ...], output: Three) -> None:
    x, w, *ctx.rest = inputs
    _, *scales = output
    ctx.mark_non_differentiable(*scales)
    ctx.save_for_backward(x, w, *scales)


def _seen(context: Any) -> tuple[Tensor, Tensor]:
    """The dequantised x and w, where a gradient needs them."""
    (x, w, of_x, of_w), (wants_x, wants_w, *_) = context.saved_tensors, context.needs_input_grad
    return _ours.nearest(x, of_x) if wants_w else x, _ours.nearest(w, of_w) if wants_x else w


def _convolution_backward(context: Any, g: Tensor, *_: Any) -> tuple[Any, ...]:
    *window, custom = context.rest
    x, w = _seen(context)
    found = library.gradients_of_convolution(g, x, w, window, custom, context.needs_input_grad[:2])
    return *found, *[None] * len(context.rest)


def _dense_backward(context: Any, g: Tensor, *_: Any) -> tuple[Any, ...]:
    (x, w), (custom,) = _seen(context), context.rest
    return *library.gradients_of_dense(g, x, w, custom, context.needs_input_grad[:2]), None


def _with_scales(y: Tensor, x: Tensor, w: Tensor) -> Three:
    return y, x.new_empty(x.shape[0]), x.new_empty(w.shape[0])


_COMPUTED: dict[str, Callable[..., Any]] = {
    "convolution_int8": _convolved, "dense_int8": _multiplied, "nearest": products.nearest
}
_SIZES: dict[str, Callable[..., Any]] = {
    "convolution_int8": lambda x, w, *rest: _with_scales(library.convolved(x, w, *rest), x, w),
    "dense_int8": lambda x, w, custom: _with_scales(x.new_empty(x.shape[0], w.shape[0]), x, w),
    "nearest": lambda x, scales: torch.empty_like(x, memory_format=_format(x)),
}


def _format(x: Tensor) -> torch.memory_format:
    return library.LAST if x.ndim == 4 else torch.contiguous_format


def _operations(x: Sequence[int], w: Sequence[int], *rest: Any, out_shape: Any, **_: Any) -> int:
    """FLOP of the int8 product: each weight is used once for each position of y."""
    images, _, *places = out_shape[0]
    return 2 * int(images * torch.Size(places).numel() * torch.Size(w).numel())


def _register() -> None:
    library.define(_library, FORMS, _COMPUTED, _SIZES)
    for name, backward in (("convolution_int8", _convolution_backward), ("dense_int8", _dense_backward)):
        register_flop_formula(getattr(_ours, name))(_operations)
        register_autograd(f"{NAME}::{name}", backward, setup_context=_keep, lib=_library)


_register()
