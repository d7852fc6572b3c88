"""RoIAlign on a GPU: roi_align.cu, compiled at first use, on the current stream.

The gradient is summed by target pixel, not by source region: no sum is atomic, so results are reproducible.
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
GROUP = 32  # regions that one word of bits covers
_TAP = 16  # bytes
THREADS = 256  # threads of a block
Memory = tuple[np.uint64, ...]


def programs(target: Target) -> tuple[Program, ...]:
    """All kernels launched on such a GPU."""
    return POOL, SPREAD


def forward(
    features: torch.Tensor,
    regions: torch.Tensor,
    level: torch.Tensor,
    own_level: int,
    scale: float,
    side: int,
    samples: int,
    out: torch.Tensor,
    threads: int = 1,
) -> None:
    """Fill out [B, R, side, side, C] from features [B, H, W, C] for regions whose level is `own_level`.

    All tensors are contiguous and on one GPU; the kernel is enqueued on torch's current stream without waiting.
    """
    check(features.shape, regions.shape, level.shape, out.shape, samples)
    if out.numel():
        numbers = (own_level, scale, *level.shape, *features.shape[1:], side, samples)
        _enqueue(pooling, (features, regions, level, out), numbers)


def backward(
    gradient: torch.Tensor,
    regions: torch.Tensor,
    level: torch.Tensor,
    own_level: int,
    scale: float,
    side: int,
    samples: int,
    into: torch.Tensor,
    threads: int = 1,
) -> None:
    """Add to `into` [B, H, W, C], the gradient of the features, what the gradient of `out` contributes.

    As `forward`.
    """
    check(into.shape, regions.shape, level.shape, gradient.shape, samples)
    if gradient.numel():
        numbers = (own_level, scale, *level.shape, *into.shape[1:], side, samples)
        _enqueue(spreading, (gradient, regions, level, into), numbers)


def pooling(
    memory: Memory, own_level: int, scale: float, images: int, number: int, *sizes: int, threads: int = THREADS
) -> Launch:
    """Launch of `forward`, for features, regions, levels and result in memory; sizes are H, W, C, side and samples."""
    *given, out = memory
    arguments = (*given, np.int32(own_level), np.float64(scale), *map(np.int32, sizes), out)
    return Launch(POOL, (number, images, 1), threads, 2 * sizes[-2] * sizes[-1] * _TAP, arguments)


def spreading(
    memory: Memory, own_level: int, scale: float, images: int, number: int, *sizes: int, threads: int = THREADS
) -> Launch:
    """Launch of `backward`, for the gradient of `out`, regions, levels and `into`; sizes as in `pooling`."""
    *given, into = memory
    height, width, channels, side, _ = sizes
    block = min(threads, -(-channels // GROUP) * GROUP)
    grid = (width, height, images * -(-channels // block))
    arguments = (*given, np.int32(own_level), np.float64(scale), np.int32(number), *map(np.int32, sizes), into)
    return Launch(SPREAD, grid, block, 4 * (2 * side + block // GROUP), arguments)


def _enqueue(made: Callable[..., Launch], memory: tuple[torch.Tensor, ...], numbers: tuple[Any, ...]) -> None:
    assert all(tensor.is_contiguous() for tensor in memory)
    enqueue(made(addresses(*memory), *numbers), memory[-1].device)
