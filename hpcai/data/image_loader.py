"""Loader of normalised image batches on the device; a thread prefetches while the device trains."""

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Executor
from contextlib import closing, nullcontext
from dataclasses import replace
from typing import NamedTuple

import torch
from torch.nn.functional import interpolate

from hpcai.clock import now
from hpcai.data.batch_reader import BatchReader
from hpcai.data.bootstrap import Sampler
from hpcai.data.image_dataset import GeneratingSplit, Pixels, Split
from hpcai.data.load_counters import LoadCounters
from hpcai.data.order import EpochOrder, Order, Shard
from hpcai.data.philox import Integers
from hpcai.data.prefetch import DEPTH, Prefetcher, with_parameters
from hpcai.data.random_crops import Boxes, Crops
from hpcai.data.transfer import DeviceBatch, transfer_to


class Batch(NamedTuple):
    """Delivered samples: x float32[n, C, H, W], normalised, channels_last, and y int64[n], both on the device.

    indices, int64[n] on the host, travel with the images from where they were read: they are the samples delivered, not
    the samples requested.
    """

    x: torch.Tensor
    y: torch.Tensor
    indices: Integers


class Loader:
    """Turns index arrays into batches on the device.

    mean and std are of the pixel values / 255, one for each channel; resolution is the side of the delivered images, 0
    for the stored one; batch is the most samples of an index array; depth is the number of batches loaded ahead, 0 for
    loading on demand without a thread. With crops, only the box of an image is delivered.
    """

    def __init__(
        self,
        split: Split,
        device: torch.device,
        mean: Sequence[float],
        std: Sequence[float],
        resolution: int = 0,
        *,
        batch: int,
        depth: int = DEPTH,
        crops: Crops | None = None,
    ) -> None:
        self._split, self._batch, self._depth, self._resolution = split, batch, depth, resolution
        deviation = torch.tensor(std, device=device)
        self._scale, self._shift = 1 / (255 * deviation), -torch.tensor(mean, device=device) / deviation
        self._normalise = _on_device if device.type == "cuda" else _on_host
        self._early = device.type != "cuda"  # the loading thread normalises as well
        self._transfer, self._loaded = transfer_to(device, batch), LoadCounters()
        self._reader = BatchReader(split, crops, resolution, device) if crops else None
        self._maker = split.maker(device) if isinstance(split, GeneratingSplit) else None

    @property
    def wait_seconds(self) -> float:
        """Seconds the device has waited for data since the loader was made; reading it waits for a GPU."""
        return self._transfer.wait_seconds

    def measured(self) -> dict[str, float]:
        """Cost of loading since the loader was made, by the names of `Loading`; reading it waits for a GPU."""
        return {"wait_seconds": self.wait_seconds, **self._loaded.measured()}

    def order(self, sampler: Sampler, seed: int, epoch: int, ranks: int) -> Order:
        """The order in which `ranks` ranks take the draws of an epoch; random access to images is cheap."""
        return EpochOrder(sampler.size, seed, epoch)

    def augmentation(
        self, seed: int, member: int, epoch: int, shard: Shard, start: int = 0, stop: int | None = None
    ) -> Iterator[Boxes] | None:
        """Boxes of the steps start … stop - 1 of an epoch (None: to its end); None if images are used whole."""
        if self._reader is None:
            return None
        return self._reader.crops.of_epoch(seed, member, epoch, shard, start, shard.steps if stop is None else stop)

    def __call__(self, batches: Iterable[Integers], boxes: Iterable[Boxes] | None = None) -> Iterator[Batch]:
        """Batches for the index arrays (int64[n]), in order; cropped to the boxes, or to the centre without boxes.

        The thread iterates over `batches`, starts with the first request and ends when the iterator is closed; its
        exceptions are raised here.
        """
        with self._reader.pool() if self._reader else nullcontext() as pool:
            items = (self._load(indices, box, pool) for indices, box in with_parameters(batches, boxes))
            with closing(Prefetcher(items, self._depth) if self._depth else items) as ahead:
                while (staged := self._transfer.receive(ahead)) is not None:
                    x = staged.images if self._early else self._normalised(staged)
                    yield Batch(self._resized(x), staged.labels, staged.indices)

    def _load(self, indices: Integers, boxes: Boxes | None, pool: Executor | None) -> DeviceBatch:
        if len(indices) > self._batch:
            raise ValueError(f"a batch of {len(indices)} samples; allowed: at most {self._batch}")
        started = now()
        staged = self._stage(indices, boxes, pool)
        if self._early:
            staged = replace(staged, images=self._normalised(staged))
        self._loaded.add(len(indices), started)
        return staged

    def _stage(self, indices: Integers, boxes: Boxes | None, pool: Executor | None) -> DeviceBatch:
        labels = self._split.labels(indices)
        if self._maker:
            staged = self._transfer.make(self._maker, labels, indices)
            self._loaded.nbytes += staged.images.nbytes
            return staged
        if self._reader:
            return self._cropped(self._reader, labels, indices, boxes, pool)
        images = self._split.images(indices)
        self._loaded.nbytes += images.nbytes
        return self._transfer.stage(images, labels, indices)

    def _cropped(
        self, reader: BatchReader, labels: Integers, indices: Integers, boxes: Boxes | None, pool: Executor | None
    ) -> DeviceBatch:
        wanted = reader.crops.evaluation(len(indices)) if boxes is None else boxes

        def write(out: Pixels) -> None:
            self._loaded.nbytes += reader.fill(out, indices, wanted, pool)

        shape, on_device = (len(indices), *reader.shape), wanted if reader.crops_on_device else None
        return self._transfer.fill(shape, write, labels, indices, on_device)

    def _normalised(self, staged: DeviceBatch) -> torch.Tensor:
        images = self._reader.finish(staged.images, staged.boxes) if self._reader else staged.images
        return self._normalise(images, self._scale, self._shift)

    def _resized(self, x: torch.Tensor) -> torch.Tensor:
        size = (self._resolution, self._resolution)
        if self._resolution == 0 or x.shape[2:] == size:
            return x
        x = interpolate(x, size, mode="bilinear", align_corners=False)
        return x.contiguous(memory_format=torch.channels_last)


def _on_device(images: torch.Tensor, scale: torch.Tensor, shift: torch.Tensor) -> torch.Tensor:
    x = images.to(torch.float32, memory_format=torch.channels_last)
    return torch.addcmul(shift.view(1, -1, 1, 1), x, scale.view(1, -1, 1, 1), out=x)


def _on_host(images: torch.Tensor, scale: torch.Tensor, shift: torch.Tensor) -> torch.Tensor:
    from hpcai.kernels.normalise.numba_cpu import normalise

    return torch.from_numpy(normalise(images.numpy(), scale.numpy(), shift.numpy()))
