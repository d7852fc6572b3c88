"""The suppression on a GPU: nms.cu, compiled for the device when first used, on the stream that the caller works on."""

import numpy as np
import torch

from ..cuda.architecture import Target
from ..cuda.launch import Launch, Program, addresses, enqueue
from . import check

PROVIDER = "custom"
DEVICES = ("cuda",)

COMPARE = Program("nms/nms.cu", "compare", fused_multiply_add=False)
WALK = Program("nms/nms.cu", "walk", fused_multiply_add=False)
BITS = 64  # of a mask
MOST_BOXES = 2**18  # of a frame: what is gone of them fits the memory that every block may have
_THREADS = 256


def programs(target: Target) -> tuple[Program, ...]:
    """All that is launched on such a GPU."""
    return COMPARE, WALK


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
        memory = (boxes.contiguous(), groups.contiguous(), order, ordered, _masks(frames, count, boxes.device), found)
        for launch in launches(addresses(*memory), frames, count, kept, threshold):
            enqueue(launch, boxes.device)
    return found


def _masks(frames: int, count: int, device: torch.device) -> torch.Tensor:
    return torch.empty((frames, count, -(-count // BITS)), dtype=torch.int64, device=device)


def launches(
    memory: tuple[np.uint64, ...], frames: int, count: int, kept: int, threshold: float
) -> tuple[Launch, Launch]:
    """Both kernels, for boxes, groups, the order of the scores, scores in that order, masks and result in memory."""
    boxes, groups, order, ordered, masks, found = memory
    words = -(-count // BITS)
    compared = (boxes, groups, order, np.float64(threshold), np.int32(count), masks)
    walked = (masks, ordered, order, np.int32(count), np.int32(kept), found)
    return (
        Launch(COMPARE, (words, words, frames), BITS, 0, compared),
        Launch(WALK, (frames, 1, 1), _THREADS, 8 * words, walked),
    )
