"""How the images of a batch come into memory: read by some threads, and cropped on the host or on the device.

Both places give the same bytes, so where it happens is a matter of speed alone.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

from hpcai.data.image_dataset import Pixels, Split
from hpcai.data.philox import Integers
from hpcai.data.random_crops import Boxes, Crops
from hpcai.machine import device as devices
from hpcai.machine.affinity import own_cpus

MOST_THREADS = 8
_PIECE = 4  # images read at a time: they stay in the cache until they are cropped


def reading_threads(device: torch.device) -> int:
    """Threads that read beside the one that trains: a GPU's rank has processors to spare, a CPU's has not."""
    cpus = len(own_cpus())
    return max(1, min(MOST_THREADS, cpus - 1 if device.type == "cuda" else cpus // 8))


class BatchReader:
    """Fills the memory of a batch with the boxes of its images, channels last.

    resolution is the side of what is delivered, 0 for that of the crops.
    """

    def __init__(self, split: Split, crops: Crops, resolution: int, device: torch.device) -> None:
        self.split = split
        self.crops = crops
        self.side = resolution or crops.judged
        self.threads = reading_threads(device)
        self.crops_on_device = devices.loads_kernels(device)
        self._crop = _device_crop() if self.crops_on_device else _host_crop()

    @property
    def shape(self) -> tuple[int, int, int]:
        """Of one image in the memory that is filled: whole where the device crops."""
        side = self.crops.side if self.crops_on_device else self.side
        return side, side, 3

    @contextmanager
    def pool(self) -> Iterator[Executor | None]:
        """The threads, for as long as batches are read; None where the loading thread is enough."""
        if self.threads == 1:
            yield None
            return
        with ThreadPoolExecutor(self.threads, "hpcai-reader") as pool:
            yield pool

    def fill(self, out: Pixels, indices: Integers, boxes: Boxes, pool: Executor | None) -> None:
        """Fill out uint8[n, *shape] piece by piece."""

        def fill_piece(begin: int) -> None:
            piece = slice(begin, begin + _PIECE)
            images = self.split.images(indices[piece]).transpose(0, 2, 3, 1)
            if self.crops_on_device:
                np.copyto(out[piece], images)
            else:
                self._crop(images, boxes[piece], out[piece])

        begins = range(0, len(indices), _PIECE)
        for _ in pool.map(fill_piece, begins) if pool else map(fill_piece, begins):
            pass

    def finish(self, images: torch.Tensor, boxes: torch.Tensor | None) -> torch.Tensor:
        """uint8[n, 3, side, side] of what was filled and brought to the device, on the caller's stream."""
        cropped = images if boxes is None else self._crop(images, boxes, self.side)
        return cropped.permute(0, 3, 1, 2)


def _device_crop() -> Callable[..., Any]:
    from hpcai.kernels.crop.cupy_gpu import crop

    return crop


def _host_crop() -> Callable[..., Any]:
    from hpcai.kernels.crop.numba_cpu import crop

    return crop
