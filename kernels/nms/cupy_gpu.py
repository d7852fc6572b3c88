"""Non-maximum suppression on a GPU: nms.cu, compiled at first use, on the current stream."""

import numpy as np
import torch

from ..cuda.architecture import Target
from ..cuda.launch import Launch, Program, addresses, enqueue
from . import check

PROVIDER = "custom"
DEVICES = ("cuda",)

COMPARE = Program("nms/nms.cu", "compare", fused_multiply_add=False)
SCAN = Program("nms/nms.cu", "scan", fused_multiply_add=False)
BITS = 64  # bits of a mask
MOST_BOXES = 2**18  # boxes of a frame; their suppression bits must fit into shared memory
_THREADS = 256


def programs(target: Target) -> tuple[Program, ...]:
    """All kernels launched on such a GPU."""
    return COMPARE, SCAN


def nms(
    boxes: torch.Tensor, scores: torch.Tensor, groups: torch.Tensor, threshold: float, kept: int, threads: int = 1
) -> torch.Tensor:
    """int32[frames, kept]: indices of the kept boxes by descending score, padded with -1.

    Inputs are boxes float32[frames, boxes, 4], scores float32 and groups int32[frames, boxes] on one GPU. Kernels are
    enqueued on torch's current stream without waiting.
    """
    check(boxes.shape, scores.shape, groups.shape, threshold, kept)
    frames, count = scores.shape
    if count > MOST_BOXES:
        raise ValueError(f"{count} boxes a frame; at most {MOST_BOXES} on a GPU")
    result = torch.full((frames, kept), -1, dtype=torch.int32, device=boxes.device)
    if frames and count and kept:
        valid = torch.where(scores > -torch.inf, scores, -torch.inf)  # NaN would be sorted first
        ordered, order = torch.sort(valid, dim=1, descending=True, stable=True)
        memory = (boxes.contiguous(), groups.contiguous(), order, ordered, _masks(frames, count, boxes.device), result)
        for launch in launches(addresses(*memory), frames, count, kept, threshold):
            enqueue(launch, boxes.device)
    return result


def _masks(frames: int, count: int, device: torch.device) -> torch.Tensor:
    return torch.empty((frames, count, -(-count // BITS)), dtype=torch.int64, device=device)


def launches(
    memory: tuple[np.uint64, ...], frames: int, count: int, kept: int, threshold: float
) -> tuple[Launch, Launch]:
    """Both launches, for boxes, groups, order of scores, ordered scores, masks and result in memory."""
    boxes, groups, order, ordered, masks, result = memory
    words = -(-count // BITS)
    compared = (boxes, groups, order, np.float64(threshold), np.int32(count), masks)
    scanned = (masks, ordered, order, np.int32(count), np.int32(kept), result)
    return (
        Launch(COMPARE, (words, words, frames), BITS, 0, compared),
        Launch(SCAN, (frames, 1, 1), _THREADS, 8 * words, scanned),
    )
