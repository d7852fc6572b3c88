"""Attention with rotary positions and RMS norm on GPUs: the functions of sequences_on_cpu.py, on torch's stream."""

from functools import cache

import torch
from torch import Tensor

from .. import rms_norm
from ..attention import Shape
from ..attention import cupy_gpu as ours
from ..cuda.launch import target_of
from ..providers import Unavailable
from ..rms_norm import cupy_gpu as norms

KINDS = tuple(ours.OF_TORCH)  # of attention


@cache
def supports(device: torch.device) -> bool:
    """Whether a GPU has all kernels."""
    try:
        ours.programs(target_of(device))
    except Unavailable:
        return False
    return True


def _parts(shape: Shape, x: Tensor) -> tuple[Tensor, ...]:
    """Views [N, h, S, d / h] of queries, keys and values that lie side by side."""
    heads = x.view(shape.batch, shape.places, 3, shape.heads, shape.features)
    return heads.permute(2, 0, 3, 1, 4).unbind()


def _rows(shape: Shape, x: Tensor) -> Tensor:
    """A view [N, h, S, d / h] of rows of all heads side by side."""
    return x.view(shape.batch, shape.places, shape.heads, shape.features).transpose(1, 2)


def attend(shape: Shape, x: Tensor, cosines: Tensor, sines: Tensor) -> tuple[Tensor, ...]:
    """The output [N, S, d], rotated queries and keys [N, h, S, d / h], and the logarithms of the rows' sums."""
    rotated = tuple(x.new_empty(shape.y) for _ in range(2))
    *sources, values = _parts(shape, x)
    ours.rotate(shape, tuple(sources), rotated, (cosines, sines))
    out = x.new_empty(*x.shape[:2], shape.heads * shape.features)
    log_sums = x.new_empty(shape.y[:3], dtype=torch.float32)
    ours.forward(shape, (*rotated, values), _rows(shape, out), log_sums)
    return out, *rotated, log_sums


def attend_backwards(
    shape: Shape, g: Tensor, x: Tensor, kept: tuple[Tensor, ...], cosines: Tensor, sines: Tensor
) -> Tensor:
    """The gradient of x; kept: what `attend` returned."""
    (out, *rotated, log_sums), dx = kept, torch.empty_like(x)
    given, made = (*rotated, _parts(shape, x)[2], _rows(shape, out), _rows(shape, g)), _parts(shape, dx)
    ours.backward(shape, given, made, log_sums)
    ours.rotate(shape, made[:2], made[:2], (cosines, sines), backwards=True)
    return dx


def normalises(features: int) -> bool:
    """Whether there is an RMS norm of rows of so many numbers."""
    return norms.applies(features)


def normalise(x: Tensor, other: Tensor | None, weight: Tensor, eps: float) -> tuple[Tensor, Tensor, Tensor]:
    """y, x + other, which is normalised (x itself without another), and the factor of each row."""
    shape = _shape(x)
    y, factors = torch.empty_like(x), x.new_empty(shape.rows)
    added = {} if other is None else {"other": other, "total": torch.empty_like(x)}
    norms.forward(shape, eps, x=x, weight=weight, y=y, factors=factors, **added)
    return y, added.get("total", x), factors


def normalise_backwards(
    g: Tensor, beside: Tensor | None, x: Tensor, weight: Tensor, factors: Tensor, eps: float
) -> tuple[Tensor, Tensor]:
    """Gradients of x, the sum of the norm's and what is `beside` it, and of the weights."""
    dx, dweight = torch.empty_like(x), torch.empty_like(weight)
    also = {} if beside is None else {"beside": beside}
    norms.backward(_shape(x), g=g, x=x, weight=weight, factors=factors, dx=dx, dweight=dweight, **also)
    return dx, dweight


def _shape(x: Tensor) -> rms_norm.Shape:
    return rms_norm.Shape(x.numel() // x.shape[-1], x.shape[-1])
