"""RoIAlign on a GPU: roi_align.cu, compiled for the device when first used, on the stream that the caller works on.

The gradient is summed by the pixel that it belongs to, not by the region that it comes from: no sum is atomic, so the
results of two runs are the same.
"""

import numpy as np
import torch

from ..cuda.architecture import Target
from ..cuda.launch import Launch, Program, addresses, enqueue
from . import check

POOL = Program("roi_align/roi_align.cu", "pool", fused_multiply_add=False)
SPREAD = Program("roi_align/roi_align.cu", "spread", fused_multiply_add=False)
GROUP = 32  # regions whose reach is known as the bits of a word
_TAP = 16  # bytes
_THREADS = 256


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
    images, number = level.shape
    sizes = (*features.shape[1:], side, samples)
    if out.numel():
        memory = 2 * side * samples * _TAP
        _launch(POOL, (number, images, 1), _THREADS, memory, (features, regions, level), own, scale, sizes, out)


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
    images, height, width, channels = into.shape
    sizes = (level.shape[1], height, width, channels, side, samples)
    if gradient.numel():
        block = min(_THREADS, -(-channels // GROUP) * GROUP)
        grid = (width, height, images * -(-channels // block))
        memory = 4 * (2 * side + block // GROUP)
        _launch(SPREAD, grid, block, memory, (gradient, regions, level), own, scale, sizes, into)


def _launch(
    program: Program,
    grid: tuple[int, int, int],
    block: int,
    memory: int,
    given: tuple[torch.Tensor, ...],
    own: int,
    scale: float,
    sizes: tuple[int, ...],
    result: torch.Tensor,
) -> None:
    assert all(tensor.is_contiguous() for tensor in (*given, result))
    numbers = (np.int32(own), np.float64(scale), *map(np.int32, sizes))
    arguments = (*addresses(*given), *numbers, *addresses(result))
    enqueue(Launch(program, grid, block, memory, arguments), result.device)
