"""Loader of sequences of bytes on the device; a thread prefetches while the device trains."""

from collections.abc import Iterable, Iterator
from contextlib import closing
from typing import NamedTuple

import numpy as np
import torch

from hpcai.clock import now
from hpcai.data.bootstrap import Sampler
from hpcai.data.load_counters import LoadCounters
from hpcai.data.order import EpochOrder, Order, Shard
from hpcai.data.philox import Integers
from hpcai.data.prefetch import DEPTH, Prefetcher
from hpcai.data.text.text_dataset import UNCOUNTED, Sequences
from hpcai.data.transfer import DeviceBatch, transfer_to


class Batch(NamedTuple):
    """Delivered sequences: x float32[n, 1, 1, S], the bytes, and y int64[n, S], what follows each, on the device.

    y is UNCOUNTED where another sequence predicts the byte. indices, int64[n] on the host, are the sequences delivered.
    """

    x: torch.Tensor
    y: torch.Tensor
    indices: Integers


class Loader:
    """Turns index arrays into batches on the device.

    batch is the most sequences of an index array; depth the number of batches loaded ahead, 0 for loading on demand.
    """

    def __init__(self, split: Sequences, device: torch.device, *, batch: int, depth: int = DEPTH) -> None:
        self.split, self._batch, self._depth = split, batch, depth
        self._transfer, self._loaded = transfer_to(device, batch), LoadCounters()

    def measured(self) -> dict[str, float]:
        """Cost of loading since the loader was made, by the names of `Loading`; reading it waits for a GPU."""
        return {"wait_seconds": self._transfer.wait_seconds, **self._loaded.measured()}

    def order(self, sampler: Sampler, seed: int, epoch: int, ranks: int) -> Order:
        """The order in which `ranks` ranks take the draws of an epoch; random access to sequences is cheap."""
        return EpochOrder(sampler.size, seed, epoch)

    def augmentation(
        self, seed: int, member: int, epoch: int, shard: Shard, start: int = 0, stop: int | None = None
    ) -> None:
        """None: sequences are used as they are."""

    def __call__(self, batches: Iterable[Integers], augmented: None = None) -> Iterator[Batch]:
        """Batches for the index arrays (int64[n]), in order.

        The thread iterates over `batches`, starts with the first request and ends when the iterator is closed; its
        exceptions are raised here.
        """
        items = (self._load(indices) for indices in batches)
        with closing(Prefetcher(items, self._depth) if self._depth else items) as ahead:
            while (staged := self._transfer.receive(ahead)) is not None:
                yield Batch(staged.images, staged.labels, staged.indices)

    def _load(self, indices: Integers) -> DeviceBatch:
        if len(indices) > self._batch:
            raise ValueError(f"a batch of {len(indices)} sequences; allowed: at most {self._batch}")
        started = now()
        sequences = self.split.sequences(indices)
        x, y = sequences[:, None, None, :-1].astype(np.float32), sequences[:, 1:].astype(np.int64)
        y[np.arange(y.shape[1]) < self.split.uncounted(indices)[:, None]] = UNCOUNTED
        self._loaded.nbytes += sequences.nbytes
        staged = self._transfer.stage(x, y, indices)
        self._loaded.add(len(indices), started)
        return staged
