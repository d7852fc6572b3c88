"""RoIAlign on a GPU: roi_align.cu, compiled for the device when first used, on the stream that the caller works on.

The gradient is summed by the pixel that it belongs to, not by the region that it comes from: no sum is atomic, so the
results of two runs are the same.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from ..cuda.architecture import Target
from ..cuda.launch import Launch, Program, addresses, enqueue
from . import check

PROVIDER = "custom"
DEVICES = ("cuda",)

POOL = Program("roi_align/roi_align.cu", "pool", fused_multiply_add=False)
SPREAD = Program("roi_align/roi_align.cu", "spread", fused_multiply_add=False)
GROUP = 32  # regions whose reach is known as the bits of a word
_TAP = 16  # bytes
THREADS = 256  # of a block
Memory = tuple[np.uint64, ...]


def programs(target: Target) -> tuple[Program, ...]:
    """All that is launched on such a GPU."""
    return POOL, SPREAD


def forward(
    features: torch.Tensor,
    regions: torch.Tensor,
    level: torch.Tensor,
    own: int,
    scale: float,
    side: int,
    samples: int,
    out: torch.Tensor,
    threads: int = 1,
) -> None:
    """Fill out [B, R, side, side, C] from features [B, H, W, C] where a region's level is `own`.

    All are of the same GPU and in one piece; it is put on torch's current stream and not waited for.
    """
    check(features.shape, regions.shape, level.shape, out.shape, samples)
    if out.numel():
        numbers = (own, scale, *level.shape, *features.shape[1:], side, samples)
        _enqueue(pooling, (features, regions, level, out), numbers)


def backward(
    gradient: torch.Tensor,
    regions: torch.Tensor,
    level: torch.Tensor,
    own: int,
    scale: float,
    side: int,
    samples: int,
    into: torch.Tensor,
    threads: int = 1,
) -> None:
    """Add to `into` [B, H, W, C], the gradient of the features, what follows from that of `out`. As `forward`."""
    check(into.shape, regions.shape, level.shape, gradient.shape, samples)
    if gradient.numel():
        numbers = (own, scale, *level.shape, *into.shape[1:], side, samples)
        _enqueue(spreading, (gradient, regions, level, into), numbers)


def pooling(
    memory: Memory, own: int, scale: float, images: int, number: int, *sizes: int, threads: int = THREADS
) -> Launch:
    """`forward`, for features, regions, levels and result in memory; sizes are H, W, C, side and samples."""
    *given, out = memory
    arguments = (*given, np.int32(own), np.float64(scale), *map(np.int32, sizes), out)
    return Launch(POOL, (number, images, 1), threads, 2 * sizes[-2] * sizes[-1] * _TAP, arguments)


def spreading(
    memory: Memory, own: int, scale: float, images: int, number: int, *sizes: int, threads: int = THREADS
) -> Launch:
    """`backward`, for the gradient of `out`, regions, levels and `into` in memory; sizes as of `pooling`."""
    *given, into = memory
    height, width, channels, side, _ = sizes
    block = min(threads, -(-channels // GROUP) * GROUP)
    grid = (width, height, images * -(-channels // block))
    arguments = (*given, np.int32(own), np.float64(scale), np.int32(number), *map(np.int32, sizes), into)
    return Launch(SPREAD, grid, block, 4 * (2 * side + block // GROUP), arguments)


def _enqueue(made: Callable[..., Launch], memory: tuple[torch.Tensor, ...], numbers: tuple[Any, ...]) -> None:
    assert all(tensor.is_contiguous() for tensor in memory)
    enqueue(made(addresses(*memory), *numbers), memory[-1].device)
