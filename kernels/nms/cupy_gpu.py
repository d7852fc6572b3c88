"""The suppression on a GPU: nms.cu, compiled for the device when first used, on the stream that the caller works on."""

from functools import cache
from pathlib import Path
from typing import Any

import cupy
import torch

from . import check

SOURCE = Path(__file__).with_name("nms.cu")
OPTIONS = ("--std=c++17", "--fmad=false")
BITS = 64  # of a mask
MOST_BOXES = 2**18  # of a frame: what is gone of them fits the memory that every block may have
_THREADS = 256


def nms(
    boxes: torch.Tensor, scores: torch.Tensor, groups: torch.Tensor, threshold: float, kept: int, threads: int = 1
) -> torch.Tensor:
    """int32[frames, kept]: indices of the boxes that are kept, the highest score first, padded with -1.

    From boxes float32[frames, boxes, 4], scores float32 and groups int32[frames, boxes] of the same GPU. It is put on
    torch's current stream and not waited for.
    """
    check(boxes.shape, scores.shape, groups.shape, threshold, kept)
    frames, count = scores.shape
    if count > MOST_BOXES:
        raise ValueError(f"{count} boxes a frame; at most {MOST_BOXES} on a GPU")
    found = torch.full((frames, kept), -1, dtype=torch.int32, device=boxes.device)
    if frames and count and kept:
        there = torch.where(scores > -torch.inf, scores, -torch.inf)  # NaN would be sorted to the front
        ordered, order = torch.sort(there, dim=1, descending=True, stable=True)
        _launch(boxes.contiguous(), groups.contiguous(), order, ordered, threshold, found)
    return found


def _launch(
    boxes: torch.Tensor,
    groups: torch.Tensor,
    order: torch.Tensor,
    ordered: torch.Tensor,
    threshold: float,
    found: torch.Tensor,
) -> None:
    (frames, count), kept, device = order.shape, found.shape[1], boxes.device
    words = -(-count // BITS)
    masks = torch.empty((frames, count, words), dtype=torch.int64, device=device)
    stream = torch.cuda.current_stream(device).cuda_stream
    with cupy.cuda.Device(device.index), cupy.cuda.ExternalStream(stream):
        compare, walk = _kernels(device.index)
        given = (*_pointers(boxes, groups, order), cupy.float64(threshold), cupy.int32(count), *_pointers(masks))
        compare((words, words, frames), (BITS,), given)
        sizes = (cupy.int32(count), cupy.int32(kept))
        given = (*_pointers(masks, ordered, order), *sizes, *_pointers(found))
        walk((frames,), (_THREADS,), given, shared_mem=8 * words)


def _pointers(*tensors: torch.Tensor) -> list[Any]:
    return [cupy.uintp(tensor.data_ptr()) for tensor in tensors]


@cache
def _kernels(device: int) -> tuple[Any, Any]:
    module = cupy.RawModule(code=SOURCE.read_text(encoding="utf-8"), options=OPTIONS)
    return module.get_function("compare"), module.get_function("walk")
