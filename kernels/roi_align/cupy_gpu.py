"""RoIAlign on a GPU: roi_align.cu, compiled for the device when first used, on the stream that the caller works on.

The gradient is summed by the pixel that it belongs to, not by the region that it comes from: no sum is atomic, so the
results of two runs are the same.
"""

from functools import cache
from pathlib import Path
from typing import Any

import cupy
import torch

from . import check

SOURCE = Path(__file__).with_name("roi_align.cu")
OPTIONS = ("--std=c++17", "--fmad=false")
GROUP = 32  # regions whose reach is known as the bits of a word
_TAP = 16  # bytes
_THREADS = 256


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
        _launch("pool", (number, images), _THREADS, memory, (features, regions, level), own, scale, sizes, out)


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
        _launch("spread", grid, block, memory, (gradient, regions, level), own, scale, sizes, into)


def _launch(
    name: str,
    grid: tuple[int, ...],
    block: int,
    memory: int,
    given: tuple[torch.Tensor, ...],
    own: int,
    scale: float,
    sizes: tuple[int, ...],
    result: torch.Tensor,
) -> None:
    assert all(tensor.is_contiguous() for tensor in (*given, result))
    device = result.device
    pointers = [cupy.uintp(tensor.data_ptr()) for tensor in (*given, result)]
    numbers = (cupy.int32(own), cupy.float64(scale), *(cupy.int32(size) for size in sizes))
    stream = torch.cuda.current_stream(device).cuda_stream
    with cupy.cuda.Device(device.index), cupy.cuda.ExternalStream(stream):
        arguments = (*pointers[:-1], *numbers, pointers[-1])
        _module(device.index).get_function(name)(grid, (block,), arguments, shared_mem=memory)


@cache
def _module(device: int) -> Any:
    return cupy.RawModule(code=SOURCE.read_text(encoding="utf-8"), options=OPTIONS)
