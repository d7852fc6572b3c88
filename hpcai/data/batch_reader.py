"""Reader of image batches: several threads read the images, which are cropped on the host or on the device.

Both give the same bytes; the choice affects only the speed.
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
_PIECE = 4  # images read at a time, so that they are in the cache when they are cropped


def reading_threads(device: torch.device) -> int:
    """Number of reading threads: a rank with a GPU has idle processors, a rank that computes on a CPU has not."""
    cpus = len(own_cpus())
    return max(1, min(MOST_THREADS, cpus - 1 if device.type == "cuda" else cpus // 8))


class BatchReader:
    """Fills the memory of a batch with the crops of its images, channels last.

    resolution is the side of the delivered images, 0 for that of the crops.
    """

    def __init__(self, split: Split, crops: Crops, resolution: int, device: torch.device) -> None:
        self.split = split
        self.crops = crops
        self.side = resolution or crops.evaluated
        self.threads = reading_threads(device)
        self.crops_on_device = devices.loads_kernels(device)
        self._crop = _device_crop() if self.crops_on_device else _host_crop()

    @property
    def shape(self) -> tuple[int, int, int]:
        """Shape of one image in the filled memory; the whole image if the device crops."""
        side = self.crops.side if self.crops_on_device else self.side
        return side, side, 3

    @contextmanager
    def pool(self) -> Iterator[Executor | None]:
        """The reading threads, while batches are read; None if the loading thread is enough."""
        if self.threads == 1:
            yield None
            return
        with ThreadPoolExecutor(self.threads, "hpcai-reader") as pool:
            yield pool

    def fill(self, out: Pixels, indices: Integers, boxes: Boxes, pool: Executor | None) -> int:
        """Fill out uint8[n, *shape] piece by piece; returns the bytes of the images before they were cropped."""

        def fill_piece(begin: int) -> int:
            piece = slice(begin, begin + _PIECE)
            images = self.split.images(indices[piece]).transpose(0, 2, 3, 1)
            if self.crops_on_device:
                np.copyto(out[piece], images)
            else:
                self._crop(images, boxes[piece], out[piece])
            return images.nbytes

        begins = range(0, len(indices), _PIECE)
        return sum(pool.map(fill_piece, begins) if pool else map(fill_piece, begins))

    def finish(self, images: torch.Tensor, boxes: torch.Tensor | None) -> torch.Tensor:
        """Images uint8[n, 3, side, side] from the filled memory on the device; works on the caller's stream."""
        cropped = images if boxes is None else self._crop(images, boxes, self.side)
        return cropped.permute(0, 3, 1, 2)


def _device_crop() -> Callable[..., Any]:
    from hpcai.kernels.crop.cupy_gpu import crop

    return crop


def _host_crop() -> Callable[..., Any]:
    from hpcai.kernels.crop.numba_cpu import crop

    return crop
