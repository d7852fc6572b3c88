"""Loader of normalised climate fields with boxes on the device; a thread prefetches while the device trains."""

from collections.abc import Iterable, Iterator
from contextlib import closing
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from hpcai.clock import now
from hpcai.data.bootstrap import Sampler
from hpcai.data.load_counters import LoadCounters
from hpcai.data.order import EpochOrder, Order, Shard
from hpcai.data.philox import Integers
from hpcai.data.prefetch import DEPTH, Prefetcher, with_parameters
from hpcai.data.transfer import DeviceBatch, transfer_to
from hpcai.data.weather.augmentation import (
    SIGNS,
    Transforms,
    of_epoch,
    transformed_boxes,
    transformed_fields,
    unchanged,
)
from hpcai.data.weather.block_order import Blockwise
from hpcai.data.weather.box_cleaning import targets
from hpcai.data.weather.read_counters import ReadCounters
from hpcai.data.weather.weather_dataset import Fields, Frames, Weather


class Batch(NamedTuple):
    """Delivered frames: x float32[n, 16, H, W], normalised, channels_last, and y float32[n, 15, 5] on the device.

    y has rows [ymin, xmin, ymax, xmax, class] with the detector's numbers of the classes, used rows first, the rest -1.
    indices, int64[n] on the host, travel with the frames from where they were read: they are the frames delivered, not
    the frames requested.
    """

    x: torch.Tensor
    y: torch.Tensor
    indices: Integers


class Loader:
    """Turns index arrays into batches on the device.

    split is one of the two of `data`; batch is the most frames of an index array; depth is the number of batches
    loaded ahead, 0 for loading on demand without a thread.
    """

    def __init__(self, data: Weather, split: Frames, device: torch.device, *, batch: int, depth: int = DEPTH) -> None:
        self._data, self._split, self._batch, self._depth = data, split, batch, depth
        self._on_device = device.type == "cuda"
        self._mean, self._std = (torch.from_numpy(values).to(device) for values in (data.mean, data.std))
        self._transfer, self._loaded = transfer_to(device, batch), LoadCounters()
        self._meter: ReadCounters = getattr(split, "meter", ReadCounters())  # generated frames read nothing

    @property
    def wait_seconds(self) -> float:
        """Seconds the device has waited for data since the loader was made; reading it waits for a GPU."""
        return self._transfer.wait_seconds

    def measured(self) -> dict[str, float]:
        """Cost of loading since the loader was made, by the names of `FieldLoading`; reading it waits for a GPU.

        bytes_read, read_seconds and decompress_seconds are of the split since it was opened, summed over its threads.
        """
        return {"wait_seconds": self.wait_seconds, **self._loaded.measured(), **self._meter.measured()}

    def order(self, sampler: Sampler, seed: int, epoch: int, ranks: int) -> Order:
        """The order in which `ranks` ranks take the draws of an epoch: block by block if frames are read in blocks.

        A random frame of a published file costs as much as its block.
        """
        begins = getattr(self._split, "begins", None)
        if begins is None:
            return EpochOrder(sampler.size, seed, epoch)
        return Blockwise(sampler, begins, seed, epoch, ranks)

    def augmentation(
        self, seed: int, member: int, epoch: int, shard: Shard, start: int = 0, stop: int | None = None
    ) -> Iterator[Transforms]:
        """Transforms of the steps start … stop - 1 of an epoch (None: to its end)."""
        return of_epoch(seed, member, epoch, shard, self._data.shape[2], start, stop)

    def __call__(self, batches: Iterable[Integers], turns: Iterable[Transforms] | None = None) -> Iterator[Batch]:
        """Batches for the index arrays (int64[n]), in order; transformed if `turns` are given.

        The thread iterates over `batches`, starts with the first request and ends when the iterator is closed; its
        exceptions are raised here.
        """
        items = (self._load(indices, turn) for indices, turn in with_parameters(batches, turns))
        with closing(Prefetcher(items, self._depth) if self._depth else items) as ahead:
            while (staged := self._transfer.receive(ahead)) is not None:
                x = self._normalised(staged.images) if self._on_device else staged.images
                yield Batch(x.permute(0, 3, 1, 2), staged.labels, staged.indices)

    def _load(self, indices: Integers, turns: Transforms | None) -> DeviceBatch:
        if len(indices) > self._batch:
            raise ValueError(f"a batch of {len(indices)} frames; allowed: at most {self._batch}")
        started = now()
        fields, boxes = self._split.frames(indices), self._split.boxes(indices)
        self._loaded.nbytes += fields.nbytes
        if turns is not None:
            boxes = transformed_boxes(boxes, turns, *self._data.shape[1:])
        turns = unchanged(len(indices)) if turns is None else turns
        staged = self._staged(fields, turns, targets(boxes, self._data.classes), indices)
        self._loaded.add(len(indices), started)
        return staged

    def _staged(self, fields: Fields, turns: Transforms, labels: NDArray[np.float32], indices: Integers) -> DeviceBatch:
        """Start the transfer of fields, channels last: as stored to a GPU, which is fewer bytes, else normalised."""
        n, channels, height, width = fields.shape

        def write(out: Fields) -> None:
            if self._on_device:
                transformed_fields(fields, turns, out.transpose(0, 3, 1, 2))
            else:
                _transformed_and_normalised(fields, turns, self._data, out)

        kind = fields.dtype if self._on_device else np.float32
        return self._transfer.fill((n, height, width, channels), write, labels, indices, None, kind)

    def _normalised(self, fields: torch.Tensor) -> torch.Tensor:
        return fields.to(torch.float32).sub_(self._mean).div_(self._std)


def _transformed_and_normalised(fields: Fields, turns: Transforms, data: Weather, out: Fields) -> None:
    """Transform and normalise into out [n, H, W, 16] in one pass; 16-bit fields are converted to fp32 first."""
    from hpcai.kernels.normalise.numba_cpu import transform_and_normalise

    transform_and_normalise(fields.astype(np.float32, copy=False), turns, SIGNS, data.mean, data.std, out)
