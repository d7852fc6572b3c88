"""Batch normalisation, optionally with addition and ReLU, as torch operators on CPUs, for channels-last images.

fp32 and fp64, with channels that fill whole vectors (`applies`); for others, torch's operators must be used.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.library import Library, register_autograd, register_fake

from .library import LAST, NAME

KINDS = {torch.float32: np.float32, torch.float64: np.float64}
_library = Library(NAME, "FRAGMENT")
_ours: Any = torch.ops.hpcai
FORMS = (
    "batch_norm(Tensor x, Tensor? other, Tensor weight, Tensor bias, float eps, bool relu) -> (Tensor, Tensor, Tensor)",
    "batch_norm_known(Tensor x, Tensor? other, Tensor weight, Tensor bias, Tensor mean, Tensor variance, float eps,"
    " bool relu) -> Tensor",
    "batch_norm_backward(Tensor g, Tensor x, Tensor? y, Tensor weight, Tensor bias, Tensor mean, Tensor variance,"
    " float eps, bool relu) -> (Tensor, Tensor, Tensor, Tensor)",
)


Moments = tuple[Tensor, Tensor, float]  # running mean and variance, which change in place, and momentum


def applies(x: Tensor, weight: Tensor) -> bool:
    """Whether there is a kernel for these images and weights."""
    return weight.dtype == x.dtype and takes(x, x.shape[1])


def takes(x: Tensor, channels: int) -> bool:
    """Whether there is a kernel for images of x's type and layout with so many channels."""
    return x.device.type == "cpu" and x.dtype in KINDS and bool(_numba().applies(channels, x.itemsize))


@cache
def _numba() -> Any:
    from ..batch_norm import numba_cpu

    return numba_cpu


def computed(
    x: Tensor, other: Tensor | None, weight: Tensor, bias: Tensor, eps: float, relu: bool,
    running: Moments | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """y, and mean and variance of each channel, towards which `running` ones move."""
    _check(x, [other], [weight, bias, *([] if running is None else running[:2])])
    return forward(x, other, weight, bias, eps, relu, running)


def forward(
    x: Tensor, other: Tensor | None, weight: Tensor, bias: Tensor, eps: float, relu: bool, running: Moments | None
) -> tuple[Tensor, Tensor, Tensor]:
    """`computed` where sizes and types are known to fit."""
    mean, variance = torch.empty_like(weight), torch.empty_like(weight)
    y = _made("forward", x, other, weight, bias, mean, variance, eps, relu, running)
    return y, mean, variance


def _batch_norm_known(x: Tensor, other: Tensor | None, *known: Any) -> Tensor:
    """y by given mean and variance."""
    _check(x, [other], known[:4])
    return _made("evaluate", x, other, *known)


def _made(
    name: str, x: Tensor, other: Tensor | None, weight: Tensor, bias: Tensor, mean: Tensor, variance: Tensor,
    eps: float, relu: bool, running: Moments | None = None,
) -> Tensor:
    x, other = _in_order(x), None if other is None else _in_order(other)
    y = torch.empty_like(x)
    layer, one, _kept = _layer(x, eps, weight, bias, mean, variance)
    pointer = 0 if other is None else other.data_ptr()
    moved = () if running is None else (_numba().Running(*_in_place(running[:2]), running[2]),)
    getattr(_numba(), name)(layer, one, x.data_ptr(), pointer, y.data_ptr(), relu, torch.get_num_threads(), *moved)
    return y


def _in_place(vectors: Sequence[Tensor]) -> list[int]:
    """Addresses of vectors that a kernel changes; RuntimeError if their numbers are not side by side."""
    if not all(vector.is_contiguous() for vector in vectors):
        raise RuntimeError("batch norm with running moments whose numbers are not side by side")
    return [vector.data_ptr() for vector in vectors]


def computed_backward(g: Tensor, x: Tensor, y: Tensor | None, *rest: Any) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The gradients of x, of the addend (empty unless y is given), of weight and of bias."""
    _check(x, [g, y], rest[:4])
    return backward(g, x, y, *rest)


def backward(g: Tensor, x: Tensor, y: Tensor | None, *rest: Any) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """`computed_backward` where sizes and types are known to fit."""
    *vectors, eps, relu = rest
    g, x, y = _in_order(g), _in_order(x), None if y is None else _in_order(y)
    dx = torch.empty_like(x)
    dother = x.new_empty(0) if y is None else torch.empty_like(x)
    layer, one, (weight, *_) = _layer(x, eps, *vectors)
    dweight, dbias = torch.empty_like(weight), torch.empty_like(weight)
    arrays = (g, x, dx if y is None else y, dx)
    addresses = [each.data_ptr() for each in arrays] + [0 if y is None else dother.data_ptr()]
    sums = (dweight.data_ptr(), dbias.data_ptr())
    _numba().backward(layer, one, *addresses, *sums, relu, torch.get_num_threads())
    return dx, dother, dweight, dbias


def _check(x: Tensor, alike: Iterable[Tensor | None], vectors: Sequence[Tensor]) -> None:
    """Check sizes and types, since memory is accessed by them."""
    given, size = [each for each in alike if each is not None], x.shape
    fit = _like_that(given, size, x.dtype) and _like_that(vectors, size[1:2], x.dtype)
    if fit and len(size) == 4 and x.numel() and takes(x, size[1]):
        return
    found, kinds = [(tuple(each.shape), each.dtype) for each in (*given, *vectors)], ", ".join(map(str, KINDS))
    raise RuntimeError(
        f"batch norm of {tuple(x.shape)}, {x.dtype}, with {found}; allowed: images of {kinds} "
        "whose channels are whole vectors, others like them, and a number a channel"
    )


def _like_that(tensors: Sequence[Tensor], size: torch.Size, kind: torch.dtype) -> bool:
    return not [each for each in tensors if each.shape != size or each.dtype != kind]


def _in_order(tensor: Tensor) -> Tensor:
    return tensor.contiguous(memory_format=LAST)


def _layer(x: Tensor, eps: float, *vectors: Tensor) -> tuple[Any, Any, list[Tensor]]:
    """The layer, 1 of its type, and the vectors, which must be kept alive while it is used."""
    kept = [vector.contiguous() for vector in vectors]
    addresses = (vector.data_ptr() for vector in kept)
    return _numba().Layer(x.numel() // x.shape[1], x.shape[1], *addresses, eps), KINDS[x.dtype](1), kept


def keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor, Tensor]) -> None:
    """Save tensors for the gradients."""
    _, *moments = output
    ctx.mark_non_differentiable(*moments)
    save(ctx, inputs, output)


def save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor, Tensor]) -> None:
    """The same where the moments are no results."""
    (x, other, weight, bias, ctx.eps, ctx.relu), (y, mean, variance) = inputs, output
    ctx.added = other is not None
    ctx.save_for_backward(x, y if ctx.added and ctx.relu else None, weight, bias, mean, variance)


def _backward(ctx: Any, g: Tensor, *_: Any) -> tuple[Any, ...]:
    return gradients(ctx, g, _ours.batch_norm_backward)


def gradients(ctx: Any, g: Tensor, compute: Callable[..., Any]) -> tuple[Any, ...]:
    """Gradients of all inputs, None for those that are no tensors."""
    x, y, *vectors = ctx.saved_tensors
    dx, dother, dweight, dbias = compute(g, x, y, *vectors, ctx.eps, ctx.relu)
    of_other = None if not ctx.added else dother if y is not None else g
    return dx, of_other, dweight, dbias, None, None


def _register() -> None:
    kernels = {
        "batch_norm": computed, "batch_norm_known": _batch_norm_known, "batch_norm_backward": computed_backward
    }
    for form in FORMS:
        name = form.partition("(")[0]
        _library.define(form)
        _library.impl(name, kernels[name], "CPU")
    sizes: dict[str, Callable[..., Any]] = {
        "batch_norm": lambda x, other, weight, *_: (_like(x), *(torch.empty_like(weight) for _ in range(2))),
        "batch_norm_known": lambda x, *_: _like(x),
        "batch_norm_backward": lambda g, x, y, weight, *_: (
            _like(x), x.new_empty(0) if y is None else _like(x), *(torch.empty_like(weight) for _ in range(2))
        ),
    }
    for name, size in sizes.items():
        register_fake(f"{NAME}::{name}", size, lib=_library)
    register_autograd(f"{NAME}::batch_norm", _backward, setup_context=keep, lib=_library)


def _like(x: Tensor) -> Tensor:
    return torch.empty_like(x, memory_format=LAST)


_register()
