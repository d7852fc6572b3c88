"""The pictures made on a GPU, by the kernel in images.cu, straight into torch's memory."""

from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch

from . import CHANNELS, Formula, Part
from .reference import Integers, textures

SOURCE = Path(__file__).with_name("images.cu")
_THREADS = 256


def numbers(formula: Formula, split: int) -> Any:
    """What the kernel must know, uint32[14], in the order of its struct Formula."""
    f = formula
    tags = [f.tag_of(*part) for part in ((Part.CODE, 0), (Part.VIEW, split), (Part.CELL, split), (Part.NOISE, split))]
    rest = [f.classes, f.symbols, f.synonyms, f.grid, f.shifts, f.corrupted, f.side, f.cell]
    return np.array([*f.key, *tags, *rest], np.uint32)


@lru_cache
def _kernel() -> Any:
    import cupy

    return cupy.RawModule(code=SOURCE.read_text(encoding="utf-8"), options=("-std=c++17",)).get_function("images")


def maker(formula: Formula, split: int, device: torch.device) -> Callable[[Integers], torch.Tensor]:
    """A function of indices (int64, not negative) that gives their pictures on the GPU, uint8[n, 3, side, side].

    It works on torch's current stream of that device and waits for nothing.
    """
    import cupy

    table = torch.from_numpy(textures(formula)).to(device)
    constants = torch.from_numpy(numbers(formula, split).view(np.int32)).to(device)
    blocks = -(-formula.quarter // _THREADS)

    def launch(pictures: torch.Tensor, indices: torch.Tensor) -> None:
        where = indices.to(device, non_blocking=True)
        arguments = tuple(np.uint64(part.data_ptr()) for part in (pictures, where, table, constants))
        with cupy.cuda.ExternalStream(torch.cuda.current_stream(device).cuda_stream):
            _kernel()((len(indices), blocks), (_THREADS,), arguments)

    def images(indices: Integers) -> torch.Tensor:
        with torch.cuda.device(device), cupy.cuda.Device(device.index):
            pictures = torch.empty(
                (len(indices), CHANNELS, formula.side, formula.side), dtype=torch.uint8, device=device
            )
            if len(indices):
                launch(pictures, torch.from_numpy(np.ascontiguousarray(indices)).pin_memory())
        return pictures

    return images
