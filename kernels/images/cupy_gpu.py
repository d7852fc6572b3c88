"""Generated images on a GPU: images.cu, directly into torch memory."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from ..cuda.architecture import Target
from ..cuda.launch import Launch, Program, addresses, enqueue
from . import CHANNELS, Formula, Part
from .reference import Integers, textures

PROGRAM = Program("images/images.cu", "images")
_THREADS = 256


def programs(target: Target) -> tuple[Program, ...]:
    """All kernels launched on such a GPU."""
    return (PROGRAM,)


def numbers(formula: Formula, split: int) -> Any:
    """Parameters of the kernel, uint32[14], in the order of its struct Formula."""
    f = formula
    tags = [f.tag_of(*part) for part in ((Part.CODE, 0), (Part.VIEW, split), (Part.CELL, split), (Part.NOISE, split))]
    rest = [f.classes, f.symbols, f.synonyms, f.grid, f.shifts, f.corrupted, f.side, f.cell]
    return np.array([*f.key, *tags, *rest], np.uint32)


def launch(memory: tuple[np.uint64, ...], number: int, formula: Formula) -> Launch:
    """The launch for `number` images; memory: images, indices, textures and `numbers`."""
    return Launch(PROGRAM, (number, -(-formula.quarter // _THREADS), 1), _THREADS, 0, memory)


def maker(formula: Formula, split: int, device: torch.device) -> Callable[[Integers], torch.Tensor]:
    """A function from indices (int64, not negative) to their images on the GPU, uint8[n, 3, side, side].

    It enqueues on torch's current stream of that device and does not wait.
    """
    table = torch.from_numpy(textures(formula)).to(device)
    constants = torch.from_numpy(numbers(formula, split).view(np.int32)).to(device)

    def enqueued(out: torch.Tensor, indices: torch.Tensor) -> None:
        device_indices = indices.to(device, non_blocking=True)
        enqueue(launch(addresses(out, device_indices, table, constants), len(indices), formula), device)

    def images(indices: Integers) -> torch.Tensor:
        with torch.cuda.device(device):
            out = torch.empty(
                (len(indices), CHANNELS, formula.side, formula.side), dtype=torch.uint8, device=device
            )
            if len(indices):
                enqueued(out, torch.from_numpy(np.ascontiguousarray(indices)).pin_memory())
        return out

    return images
