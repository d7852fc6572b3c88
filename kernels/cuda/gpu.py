"""Properties of a GPU that plans depend on; none changes with its clock."""

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
    """Name, compilation target, multiprocessors (of the MIG slice, if any) and bytes of the L2 cache."""

    name: str
    target: Target
    processors: int
    cache: int


@cache
def gpu(device: torch.device) -> Gpu:
    """Properties of a device with its index. Unavailable if nothing can be compiled for it."""
    target = target_of(device)
    from cupy.cuda import runtime

    found = runtime.getDeviceProperties(device.index)
    return Gpu(found["name"].decode(), target, found["multiProcessorCount"], found["l2CacheSize"])
