"""Causal attention with rotary positions, and RMS norm, as differentiable functions of torch on CPUs, fp32.

For other devices and types, and under autocast or torch.compile, torch's operators must be used (`applies`).
"""

from functools import cache
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from . import direct

ONE = np.float32(1)


@cache
def _attention() -> Any:
    from ..attention import numba_cpu

    return numba_cpu


@cache
def _rms_norm() -> Any:
    from ..rms_norm import numba_cpu

    return numba_cpu


def applies(x: Tensor) -> bool:
    """Whether there are kernels for rows of this type on this device; features must be multiples of a head's."""
    return x.device.type == "cpu" and x.dtype == torch.float32 and direct.applies(x)


def attention(x: Tensor, head: int, cosines: Tensor, sines: Tensor) -> Tensor:
    """float32[N, S, d] of x[N, S, 3 d]: queries, keys and values of heads side by side.

    Queries and keys are rotated by cosines and sines [S, head / 2]. ValueError if the sizes do not fit.
    """
    found: Tensor = CausalAttention.apply(x, head, cosines, sines)
    return found


def rms_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """x[..., features] / root mean square of each row, times the weights [features]; RuntimeError if sizes do not fit.
    """
    found: Tensor = RmsNorm.apply(x, weight, eps)
    return found


class _Places:
    """Addresses of the heads of tensors, for a shape."""

    def __init__(self, x: Tensor, head: int) -> None:
        self.ours = _attention()
        samples, places, features = x.shape
        self.width, self.head = features // 3, head
        if features % (3 * head):
            raise ValueError(f"attention of {tuple(x.shape)}; allowed: queries, keys and values of heads of {head}")
        self.shape = self.ours.Shape(samples, self.width // head, places, head)

    def parts(self, x: Tensor) -> list[Any]:
        """Of queries, keys and values that lie side by side."""
        return [self._heads(x.data_ptr() + part * self.width * x.itemsize, x) for part in range(3)]

    def rows(self, x: Tensor) -> Any:
        """Of rows of all heads side by side."""
        return self._heads(x.data_ptr(), x)

    def of_heads(self, x: Tensor) -> Any:
        """Of an array [samples, heads, places, features of a head]."""
        return self.ours.Heads(x.data_ptr(), *(stride * x.itemsize for stride in x.stride()[:3]))

    def _heads(self, address: int, x: Tensor) -> Any:
        sample, place = (stride * x.itemsize for stride in x.stride()[:2])
        return self.ours.Heads(address, sample, self.head * x.itemsize, place)


# The profiler shows the names of these classes.
class CausalAttention(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, head: int, cosines: Tensor, sines: Tensor) -> Tensor:
        x, threads = x.contiguous(), torch.get_num_threads()
        places = _Places(x, head)
        queries, keys = (x.new_empty(places.shape.y) for _ in range(2))
        sources, angles = places.parts(x), (cosines.data_ptr(), sines.data_ptr())
        for source, target in zip(sources, (queries, keys), strict=False):
            places.ours.rotate(places.shape, source, places.of_heads(target), *angles, threads)
        out, log_sums = x.new_empty(*x.shape[:2], places.width), x.new_empty(places.shape.y[:3])
        given = (places.of_heads(queries), places.of_heads(keys), sources[2])
        places.ours.forward(places.shape, *given, places.rows(out), log_sums.data_ptr(), threads)
        ctx.head = head
        ctx.save_for_backward(x, queries, keys, out, log_sums, cosines, sines)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        x, queries, keys, out, log_sums, cosines, sines = ctx.saved_tensors
        g, dx, threads = gradients[0].resolve_neg().contiguous(), torch.empty_like(x), torch.get_num_threads()
        places = _Places(x, ctx.head)
        made = places.parts(dx)
        given = (places.of_heads(queries), places.of_heads(keys), places.parts(x)[2], places.rows(out), places.rows(g))
        places.ours.backward(places.shape, given, tuple(made), log_sums.data_ptr(), threads)
        for part in made[:2]:
            places.ours.rotate(
                places.shape, part, part, cosines.data_ptr(), sines.data_ptr(), threads, backwards=True
            )
        return dx, None, None, None


class RmsNorm(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, eps: float) -> Tensor:
        x, weight = x.contiguous(), weight.contiguous()
        rows = _rows(x, weight, eps)
        y, factors = torch.empty_like(x), x.new_empty(rows.number)
        given = (x.data_ptr(), weight.data_ptr(), y.data_ptr(), factors.data_ptr())
        _rms_norm().forward(rows, ONE, *given, torch.get_num_threads())
        ctx.eps = eps
        ctx.save_for_backward(x, weight, factors)
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        x, weight, factors = ctx.saved_tensors
        g, dx, dweight = gradients[0].resolve_neg().contiguous(), torch.empty_like(x), torch.empty_like(weight)
        given = (g, x, weight, factors, dx, dweight)
        addresses = [each.data_ptr() for each in given]
        _rms_norm().backward(_rows(x, weight, ctx.eps), ONE, *addresses, torch.get_num_threads())
        return dx, dweight, None


def _rows(x: Tensor, weight: Tensor, eps: float) -> Any:
    """The rows; memory is accessed by their sizes."""
    features = x.shape[-1]
    if weight.shape != (features,) or weight.dtype != x.dtype or not _rms_norm().applies(features, x.itemsize):
        raise RuntimeError(f"RMS norm of {tuple(x.shape)} by {tuple(weight.shape)}; allowed: a weight a feature, in "
                           "whole vectors")
    return _rms_norm().Rows(x.numel() // features, features, eps)
