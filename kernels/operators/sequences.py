"""Causal attention with rotary positions, and RMS norm, as differentiable functions of torch.

RMS norm is in fp32, attention in fp32 and 16 bits. For other types, and under torch.compile, torch's operators must be
used (`normalises`, `attends`).
"""

from functools import cache
from importlib import import_module
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from ..attention import Shape
from . import direct

BACKENDS = {"cpu": "sequences_on_cpu", "cuda": "sequences_on_gpu"}
SIXTEEN = (torch.float16, torch.bfloat16)


@cache
def _backend(device: str) -> Any:
    return import_module(f"{__package__}.{BACKENDS[device]}")


def normalises(x: Tensor, weight: Tensor) -> bool:
    """Whether there is an RMS norm of rows by weights in fp32. Autocast leaves norms in fp32 as well."""
    there = weight.dtype == torch.float32 and x.dtype in (torch.float32, *SIXTEEN)
    return there and direct.plain(x) and _has_kernels(x.device)


def attends(x: Tensor) -> bool:
    """Whether there is attention for rows of this type on this device; features must be multiples of a head's.

    fp32 rows are another type's under autocast.
    """
    fits = direct.plain(x) if x.dtype in SIXTEEN else x.dtype == torch.float32 and direct.applies(x)
    return fits and _has_kernels(x.device)


def _has_kernels(device: torch.device) -> bool:
    return device.type in BACKENDS and bool(_backend(device.type).supports(device))


def attention(x: Tensor, head: int, cosines: Tensor, sines: Tensor) -> Tensor:
    """[N, S, d] of x[N, S, 3 d], of its type: queries, keys and values of heads side by side.

    Queries and keys are rotated by cosines and sines float32[S, head / 2]. On CPUs 16 bits are computed in fp32, from
    and to 16 bits. ValueError if the sizes do not fit.
    """
    if x.dtype not in _backend(x.device.type).KINDS:
        return attention(x.float(), head, cosines, sines).to(x.dtype)
    found: Tensor = CausalAttention.apply(x, head, cosines, sines)
    return found


def rms_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """x[..., features] / root mean square of each row, times the weights [features], in whose type it is computed.

    The result has the type of x. RuntimeError if the sizes do not fit.
    """
    found: Tensor = RmsNorm.apply(x.to(weight.dtype), weight, eps)
    return found.to(x.dtype)


def added_norm(x: Tensor, other: Tensor, weight: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    """x + other, of two tensors of one size, and its `rms_norm`."""
    found: tuple[Tensor, Tensor] = AddedNorm.apply(x, other, weight, eps)
    return found


def _shape(x: Tensor, head: int) -> Shape:
    samples, places, features = x.shape
    if features % (3 * head):
        raise ValueError(f"attention of {tuple(x.shape)}; allowed: queries, keys and values of heads of {head}")
    return Shape(samples, features // (3 * head), places, head)


# The profiler shows the names of these classes.
class CausalAttention(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, head: int, cosines: Tensor, sines: Tensor) -> Tensor:
        x, ctx.shape = x.contiguous(), _shape(x, head)
        made: tuple[Tensor, ...] = _backend(x.device.type).attend(ctx.shape, x, cosines, sines)
        ctx.save_for_backward(x, cosines, sines, *made)
        return made[0]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        x, cosines, sines, *kept = ctx.saved_tensors
        g = gradients[0].resolve_neg().contiguous()
        dx = _backend(x.device.type).attend_backwards(ctx.shape, g, x, tuple(kept), cosines, sines)
        return dx, None, None, None


class RmsNorm(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, eps: float) -> Tensor:
        x, weight, ctx.eps = x.contiguous(), weight.contiguous(), eps
        _check(x, weight)
        y, _, factors = _backend(x.device.type).normalise(x, None, weight, eps)
        ctx.save_for_backward(x, weight, factors)
        found: Tensor = y
        return found

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        g = gradients[0].resolve_neg().contiguous()
        return *_backend(g.device.type).normalise_backwards(g, None, *ctx.saved_tensors, ctx.eps), None


class AddedNorm(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, other: Tensor, weight: Tensor, eps: float) -> tuple[Tensor, Tensor]:
        x, other, weight, ctx.eps = x.contiguous(), other.contiguous(), weight.contiguous(), eps
        _check(x, weight, other)
        y, total, factors = _backend(x.device.type).normalise(x, other, weight, eps)
        ctx.save_for_backward(total, weight, factors)
        ctx.set_materialize_grads(False)  # nothing may read the sum besides the norm
        return total, y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor | None) -> Any:
        beside, g = (None if each is None else each.resolve_neg().contiguous() for each in gradients)
        if g is None:
            return beside, beside, None, None
        dx, dweight = _backend(g.device.type).normalise_backwards(g, beside, *ctx.saved_tensors, ctx.eps)
        return dx, dx, dweight, None


def _check(x: Tensor, weight: Tensor, other: Tensor | None = None) -> None:
    """RuntimeError unless sizes fit: memory is accessed by them."""
    features = x.shape[-1]
    if other is not None and (other.shape, other.dtype, other.device) != (x.shape, x.dtype, x.device):
        raise RuntimeError(f"a sum of {tuple(x.shape)} and {tuple(other.shape)}; allowed: two of one size and type")
    if weight.shape != (features,) or weight.dtype != x.dtype or not _backend(x.device.type).normalises(features):
        raise RuntimeError(
            f"RMS norm of {tuple(x.shape)} by {tuple(weight.shape)}; allowed: a weight a feature, in whole vectors"
        )
