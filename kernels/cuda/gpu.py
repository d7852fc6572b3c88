"""What a plan has to know of a GPU, and all that it depends on: nothing that changes with its clock."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from .architecture import Target
from .launch import target_of

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Gpu:
    """Its name, what is compiled for it, its multiprocessors (or those of its MIG slice), and bytes of its L2 cache."""

    name: str
    target: Target
    processors: int
    cache: int


@cache
def gpu(device: torch.device) -> Gpu:
    """Of a device with its number. Unavailable if nothing can be compiled for it."""
    target = target_of(device)
    from cupy.cuda import runtime

    found = runtime.getDeviceProperties(device.index)
    return Gpu(found["name"].decode(), target, found["multiProcessorCount"], found["l2CacheSize"])
