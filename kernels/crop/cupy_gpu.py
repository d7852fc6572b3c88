"""The crop on a GPU: crop.cu, compiled for the device when first used, on the stream that the caller works on."""

from functools import cache
from pathlib import Path
from typing import Any

import cupy
import torch

CHANNELS = 3
_THREADS = 128


def crop(pictures: torch.Tensor, boxes: torch.Tensor, side: int) -> torch.Tensor:
    """uint8 (n, side, side, 3) from pictures uint8 (n, H, W, 3) and boxes int32 (n, 5) of the same GPU, contiguous.

    It is put on torch's current stream and not waited for. The boxes were checked where they were made, on the host.
    """
    n, height, width, channels = pictures.shape
    assert channels == CHANNELS and pictures.is_contiguous() and boxes.is_contiguous()
    out = torch.empty((n, side, side, CHANNELS), dtype=torch.uint8, device=pictures.device)
    if n:
        stream = torch.cuda.current_stream(pictures.device).cuda_stream
        pointers = [cupy.uintp(tensor.data_ptr()) for tensor in (pictures, boxes, out)]
        sizes = [cupy.int32(size) for size in (height, width, side)]
        with cupy.cuda.Device(pictures.device.index), cupy.cuda.ExternalStream(stream):
            _kernel(pictures.device.index)((-(-side // _THREADS), side, n), (_THREADS,), (*pointers, *sizes))
    return out


@cache
def _kernel(device: int) -> Any:
    source = Path(__file__).with_name("crop.cu").read_text(encoding="utf-8")
    return cupy.RawModule(code=source, options=("--std=c++17",)).get_function("crop")
