"""Crop on a GPU: crop.cu, compiled at first use, on the current stream."""

import numpy as np
import torch

from ..cuda.architecture import Target
from ..cuda.launch import Launch, Program, addresses, enqueue

PROGRAM = Program("crop/crop.cu", "crop")
CHANNELS = 3
_THREADS = 128


def programs(target: Target) -> tuple[Program, ...]:
    """All kernels launched on such a GPU."""
    return (PROGRAM,)


def crop(images: torch.Tensor, boxes: torch.Tensor, side: int) -> torch.Tensor:
    """uint8 (n, side, side, 3) from images uint8 (n, H, W, 3) and boxes int32 (n, 5), contiguous and on one GPU.

    The kernel is enqueued on torch's current stream without waiting. The host checks the boxes when it creates them.
    """
    n, height, width, channels = images.shape
    assert channels == CHANNELS and images.is_contiguous() and boxes.is_contiguous()
    out = torch.empty((n, side, side, CHANNELS), dtype=torch.uint8, device=images.device)
    if n:
        given = (*addresses(images, boxes, out), *map(np.int32, (height, width, side)))
        enqueue(Launch(PROGRAM, (-(-side // _THREADS), side, n), _THREADS, 0, given), images.device)
    return out
