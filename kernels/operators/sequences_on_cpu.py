"""Attention with rotary positions and RMS norm on CPUs, in torch's memory; all tensors are contiguous float32."""

import numpy as np
import torch
from torch import Tensor

from ..attention import Shape
from ..attention import numba_cpu as ours
from ..rms_norm import numba_cpu as norms
from ..rms_norm.numba_cpu import Rows

KINDS = (torch.float32,)  # of attention
ONE = np.float32(1)


def supports(device: torch.device) -> bool:
    """Every CPU has the kernels."""
    return True


class _Places:
    """Addresses of the heads of tensors, for a shape."""

    def __init__(self, shape: Shape) -> None:
        self.shape, self.width = shape, shape.heads * shape.features

    def parts(self, x: Tensor) -> list[ours.Heads]:
        """Of queries, keys and values that lie side by side."""
        return [self._heads(x.data_ptr() + part * self.width * x.itemsize, x) for part in range(3)]

    def rows(self, x: Tensor) -> ours.Heads:
        """Of rows of all heads side by side."""
        return self._heads(x.data_ptr(), x)

    def of_heads(self, x: Tensor) -> ours.Heads:
        """Of an array [samples, heads, places, features of a head]."""
        return ours.Heads(x.data_ptr(), *(stride * x.itemsize for stride in x.stride()[:3]))

    def _heads(self, address: int, x: Tensor) -> ours.Heads:
        sample, place = (stride * x.itemsize for stride in x.stride()[:2])
        return ours.Heads(address, sample, self.shape.features * x.itemsize, place)


def attend(shape: Shape, x: Tensor, cosines: Tensor, sines: Tensor) -> tuple[Tensor, ...]:
    """The output [N, S, d], rotated queries and keys [N, h, S, d / h], and the logarithms of the rows' sums."""
    places, threads = _Places(shape), torch.get_num_threads()
    queries, keys = (x.new_empty(shape.y) for _ in range(2))
    sources, angles = places.parts(x), (cosines.data_ptr(), sines.data_ptr())
    for source, target in zip(sources, (queries, keys), strict=False):
        ours.rotate(shape, source, places.of_heads(target), *angles, threads)
    out, log_sums = x.new_empty(*x.shape[:2], places.width), x.new_empty(shape.y[:3])
    given = (places.of_heads(queries), places.of_heads(keys), sources[2])
    ours.forward(shape, *given, places.rows(out), log_sums.data_ptr(), threads)
    return out, queries, keys, log_sums


def attend_backwards(
    shape: Shape, g: Tensor, x: Tensor, kept: tuple[Tensor, ...], cosines: Tensor, sines: Tensor
) -> Tensor:
    """The gradient of x; kept: what `attend` returned."""
    places, threads, dx = _Places(shape), torch.get_num_threads(), torch.empty_like(x)
    (out, queries, keys, log_sums), made = kept, places.parts(dx)
    given = (places.of_heads(queries), places.of_heads(keys), places.parts(x)[2], places.rows(out), places.rows(g))
    ours.backward(shape, given, tuple(made), log_sums.data_ptr(), threads)
    for part in made[:2]:
        ours.rotate(shape, part, part, cosines.data_ptr(), sines.data_ptr(), threads, backwards=True)
    return dx


def normalises(features: int) -> bool:
    """Whether there is an RMS norm of rows of so many numbers."""
    return norms.applies(features, ONE.itemsize)


def normalise(x: Tensor, other: Tensor | None, weight: Tensor, eps: float) -> tuple[Tensor, Tensor, Tensor]:
    """y, x + other, which is normalised (x itself without another), and the factor of each row."""
    y, factors = torch.empty_like(x), x.new_empty(x.numel() // x.shape[-1])
    total = x if other is None else torch.empty_like(x)
    added = None if other is None else norms.Added(other.data_ptr(), total.data_ptr())
    given = (x.data_ptr(), weight.data_ptr(), y.data_ptr(), factors.data_ptr())
    norms.forward(_rows(x, eps), ONE, *given, torch.get_num_threads(), added)
    return y, total, factors


def normalise_backwards(
    g: Tensor, beside: Tensor | None, x: Tensor, weight: Tensor, factors: Tensor, eps: float
) -> tuple[Tensor, Tensor]:
    """Gradients of x, the sum of the norm's and what is `beside` it, and of the weights."""
    dx, dweight = torch.empty_like(x), torch.empty_like(weight)
    given = (g.data_ptr(), x.data_ptr(), weight.data_ptr(), factors.data_ptr(), dx.data_ptr(), dweight.data_ptr())
    also = 0 if beside is None else beside.data_ptr()
    norms.backward(_rows(x, eps), ONE, *given, torch.get_num_threads(), also)
    return dx, dweight


def _rows(x: Tensor, eps: float) -> Rows:
    return Rows(x.numel() // x.shape[-1], x.shape[-1], eps)
