"""Registration of the custom operators with torch: schemas, gradients, autocast, operation counts."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.library import Library, register_autograd, register_fake
from torch.utils.flop_counter import register_flop_formula

from ..spec import DIRECTIONS, FORWARD, INPUT_GRADIENT, WEIGHT_GRADIENT
from . import products

NAME = "hpcai"
WINDOW = "SymInt[2] stride, SymInt[2] padding, SymInt[2] dilation, SymInt groups"
SCHEMAS = (
    f"convolution(Tensor x, Tensor w, {WINDOW}, int custom) -> Tensor",
    f"convolution_input(Tensor g, Tensor w, SymInt[4] size, {WINDOW}) -> Tensor",
    f"convolution_weight(Tensor x, Tensor g, SymInt[4] size, {WINDOW}) -> Tensor",
    "dense(Tensor x, Tensor w, int custom) -> Tensor",
    "dense_input(Tensor g, Tensor w) -> Tensor",
    "dense_weight(Tensor x, Tensor g) -> Tensor",
)
LAST = torch.channels_last
_BITS = {direction: 1 << place for place, direction in enumerate(DIRECTIONS)}
_library = Library(NAME, "DEF")
_operators: Any = torch.ops.hpcai


def define(
    into: Library, schemas: Sequence[str], computed: Mapping[str, Callable[..., Any]], sizes: Mapping[str, Any]
) -> None:
    """Register operators with these schemas: implementations and fake results by name."""
    for schema in schemas:
        name = schema.partition("(")[0]
        into.define(schema)
        for device in ("CPU", "CUDA"):
            into.impl(name, computed[name], device)
        register_fake(f"{NAME}::{name}", sizes[name], lib=into)


def bits(directions: Collection[str]) -> int:
    """A set of directions as an integer, for the operators' argument."""
    return sum(_BITS[direction] for direction in directions)


def has(custom: int, direction: str) -> bool:
    """Whether a direction is in such a set."""
    return bool(custom & _BITS[direction])


def convolved(x: Tensor, w: Tensor, *window: Any) -> Tensor:
    """Fake result of `convolution`: its sizes."""
    stride, padding, dilation = window[:3]
    taps = [each * (size - 1) + 1 for each, size in zip(dilation, w.shape[2:], strict=True)]
    sides = zip(x.shape[2:], taps, stride, padding, strict=True)
    size = [(whole + 2 * around - span) // step + 1 for whole, span, step, around in sides]
    return torch.empty((x.shape[0], w.shape[0], *size), dtype=x.dtype, device=x.device, memory_format=LAST)


def _like_given(one: Tensor, other: Tensor, size: Any, *window: Any) -> Tensor:
    return torch.empty(tuple(size), dtype=one.dtype, device=one.device, memory_format=LAST)


_SIZES: dict[str, Callable[..., Tensor]] = {
    "convolution": convolved,
    "convolution_input": _like_given,
    "convolution_weight": _like_given,
    "dense": lambda x, w, custom: x.new_empty(x.shape[0], w.shape[0]),
    "dense_input": lambda g, w: g.new_empty(g.shape[0], w.shape[1]),
    "dense_weight": lambda x, g: x.new_empty(g.shape[1], x.shape[1]),
}


def computed(x: Tensor, w: Tensor, *rest: Any) -> Tensor:
    """Implementation of `convolution`; the last argument selects the custom directions."""
    *window, custom = rest
    return products.convolution(x, w, *window) if has(custom, FORWARD) else products.by_torch(x, w, *window)


def multiplied(x: Tensor, w: Tensor, custom: int) -> Tensor:
    """Implementation of `dense`; the last argument selects the custom directions."""
    return products.dense(x, w) if has(custom, FORWARD) else x @ w.t()


_COMPUTED: dict[str, Callable[..., Tensor]] = {
    "convolution": computed,
    "convolution_input": products.convolution_input,
    "convolution_weight": products.convolution_weight,
    "dense": multiplied,
    "dense_input": products.dense_input,
    "dense_weight": products.dense_weight,
}


def _keep(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    x, w, *ctx.rest = inputs
    ctx.save_for_backward(x, w)


def _convolution_backward(context: Any, g: Tensor) -> tuple[Any, ...]:
    (*window, custom), wanted = context.rest, context.needs_input_grad[:2]
    x, w = context.saved_tensors
    found = gradients_of_convolution(g, x, w, window, custom, wanted)
    return *found, *[None] * len(context.rest)


def gradients_of_convolution(
    g: Tensor, x: Tensor, w: Tensor, window: Sequence[Any], custom: int, wanted: Sequence[bool], *, by: Any = _operators
) -> tuple[Tensor | None, Tensor | None]:
    """The requested gradients of x and w, each by custom kernels (`by` these names) or by torch."""
    directions = (INPUT_GRADIENT, WEIGHT_GRADIENT)
    by_custom = [want and has(custom, direction) for want, direction in zip(wanted, directions, strict=True)]
    by_torch = [want and not is_custom for want, is_custom in zip(wanted, by_custom, strict=True)]
    dx, dw = products.gradients_by_torch(g, x, w, *window, by_torch) if any(by_torch) else (None, None)
    if by_custom[0]:
        dx = by.convolution_input(g, w, x.shape, *window)
    if by_custom[1]:
        dw = by.convolution_weight(x, g, w.shape, *window)
    return dx, dw


def _dense_backward(context: Any, g: Tensor) -> tuple[Any, ...]:
    (x, w), (custom,) = context.saved_tensors, context.rest
    return *gradients_of_dense(g, x, w, custom, context.needs_input_grad[:2]), None


def gradients_of_dense(
    g: Tensor, x: Tensor, w: Tensor, custom: int, wanted: Sequence[bool], *, by: Any = _operators
) -> tuple[Tensor | None, Tensor | None]:
    """The requested gradients of x w^T; see `gradients_of_convolution`."""
    dx = dw = None
    if wanted[0]:
        dx = by.dense_input(g, w) if has(custom, INPUT_GRADIENT) else g @ w
    if wanted[1]:
        dw = by.dense_weight(x, g) if has(custom, WEIGHT_GRADIENT) else g.t() @ x
    return dx, dw


def _cast(name: str, device: str) -> Callable[..., Tensor]:
    """The operator under autocast: converts the operands to the autocast type."""

    def under_autocast(one: Tensor, other: Tensor, *rest: Any) -> Tensor:
        kind = torch.get_autocast_dtype(device)
        with torch.autocast(device, enabled=False):
            found: Tensor = getattr(_operators, name)(one.to(kind), other.to(kind), *rest)
        return found

    return under_autocast


def _operations(name: str) -> Callable[..., int]:
    """FLOP of an operator from the sizes of its operands and result.

    Each weight is used once for each position of y.
    """

    def of_convolution(x: Any, w: Any, *rest: Any, out_shape: Any, **_: Any) -> int:
        of_y, of_w = {
            "convolution": (out_shape, w), "convolution_input": (x, w), "convolution_weight": (w, out_shape)
        }[name]
        return 2 * of_y[0] * of_y[2] * of_y[3] * of_w.numel()

    def of_product(one: Any, other: Any, *rest: Any, out_shape: Any, **_: Any) -> int:
        inner = {"dense": one[1], "dense_input": one[1], "dense_weight": one[0]}[name]
        return 2 * int(inner) * out_shape[0] * out_shape[1]

    return of_convolution if name.startswith("convolution") else of_product


def _register() -> None:
    define(_library, SCHEMAS, _COMPUTED, _SIZES)
    for name in _COMPUTED:
        register_flop_formula(getattr(_operators, name))(_operations(name))
    for name, backward in (("convolution", _convolution_backward), ("dense", _dense_backward)):
        register_autograd(f"{NAME}::{name}", backward, setup_context=_keep, lib=_library)
        for key, device in (("AutocastCPU", "cpu"), ("AutocastCUDA", "cuda")):
            _library.impl(name, _cast(name, device), key)


_register()
