"""Batches on the device, normalised: a thread loads ahead while the device trains."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from queue import SimpleQueue
from threading import Semaphore, Thread
from typing import Generic, NamedTuple, TypeVar

import torch
from torch.nn.functional import interpolate

from hpcai.data.dataset import Split
from hpcai.data.philox import Integers
from hpcai.data.transfer import Staged, transfer_to

T = TypeVar("T")


class Batch(NamedTuple):
    """Samples as delivered: x float32[n, C, H, W], normalised, channels_last, and y int64[n] on the device.

    indices, int64[n] on the host, come with the pictures from where those were read: they say what was delivered,
    whatever was asked for.
    """

    x: torch.Tensor
    y: torch.Tensor
    indices: Integers


class Loader:
    """Turns index arrays into batches on the device.

    mean and std are of the pixel values / 255, one for each channel; resolution is the side of the pictures, 0 for
    their own; batch is the most samples of an index array; depth is how many batches the thread is ahead.
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
        depth: int = 2,
    ) -> None:
        self._split, self._batch, self._depth, self._resolution = split, batch, depth, resolution
        deviation = torch.tensor(std, device=device).view(1, -1, 1, 1)
        self._scale = 1 / (255 * deviation)
        self._shift = -torch.tensor(mean, device=device).view(1, -1, 1, 1) / deviation
        self._transfer = transfer_to(device, batch)

    @property
    def wait_seconds(self) -> float:
        """Seconds the device has waited for data since the loader was made; reading it waits for a GPU."""
        return self._transfer.wait_seconds

    def __call__(self, batches: Iterable[Integers]) -> Iterator[Batch]:
        """Batches for the index arrays (int64[n]), in their order.

        The thread walks through `batches`, starts with the first batch asked for and ends when the iterator is closed;
        what it raises is raised here.
        """
        with closing(_Ahead((self._load(indices) for indices in batches), self._depth)) as ahead:
            while (staged := self._transfer.receive(ahead)) is not None:
                yield Batch(self._normalised(staged.images), staged.labels, staged.indices)

    def _load(self, indices: Integers) -> Staged:
        if len(indices) > self._batch:
            raise ValueError(f"a batch of {len(indices)} samples; allowed: at most {self._batch}")
        return self._transfer.stage(self._split.images(indices), self._split.labels(indices), indices)

    def _normalised(self, images: torch.Tensor) -> torch.Tensor:
        x = images.to(torch.float32, memory_format=torch.channels_last)
        torch.addcmul(self._shift, x, self._scale, out=x)
        size = (self._resolution, self._resolution)
        if self._resolution == 0 or x.shape[2:] == size:
            return x
        x = interpolate(x, size, mode="bilinear", align_corners=False)
        return x.contiguous(memory_format=torch.channels_last)


class _Raised(NamedTuple):
    error: BaseException


class _Ahead(Generic[T]):
    """An iterator that runs in a thread, at most `depth` items ahead of the one who takes them."""

    def __init__(self, items: Iterator[T], depth: int) -> None:
        self._items = items
        self._ready: SimpleQueue[T | _Raised] = SimpleQueue()
        self._room = Semaphore(depth)
        self._closed = False
        self._thread = Thread(target=self._run, name="hpcai-loader", daemon=True)
        self._thread.start()

    def __iter__(self) -> "_Ahead[T]":
        return self

    def __next__(self) -> T:
        item = self._ready.get()
        if isinstance(item, _Raised):
            raise item.error
        self._room.release()
        return item

    def close(self) -> None:
        """Ends the thread, after the item it is working on."""
        self._closed = True
        self._room.release()
        self._thread.join()

    def _run(self) -> None:
        try:
            while self._room.acquire() and not self._closed:
                self._ready.put(next(self._items))
        except BaseException as error:  # noqa: BLE001 - raised again by the one who waits, StopIteration as well
            self._ready.put(_Raised(error))
