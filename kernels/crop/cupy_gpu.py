"""The crop on a GPU: crop.cu, compiled for the device when first used, on the stream that the caller works on."""

import numpy as np
import torch

from ..cuda.architecture import Target
from ..cuda.launch import Launch, Program, addresses, enqueue

PROGRAM = Program("crop/crop.cu", "crop")
CHANNELS = 3
_THREADS = 128


def programs(target: Target) -> tuple[Program, ...]:
    """All that is launched on such a GPU."""
    return (PROGRAM,)


def crop(pictures: torch.Tensor, boxes: torch.Tensor, side: int) -> torch.Tensor:
    """uint8 (n, side, side, 3) from pictures uint8 (n, H, W, 3) and boxes int32 (n, 5) of the same GPU, contiguous.

    It is put on torch's current stream and not waited for. The boxes were checked where they were made, on the host.
    """
    n, height, width, channels = pictures.shape
    assert channels == CHANNELS and pictures.is_contiguous() and boxes.is_contiguous()
    out = torch.empty((n, side, side, CHANNELS), dtype=torch.uint8, device=pictures.device)
    if n:
        given = (*addresses(pictures, boxes, out), *map(np.int32, (height, width, side)))
        enqueue(Launch(PROGRAM, (-(-side // _THREADS), side, n), _THREADS, 0, given), pictures.device)
    return out
