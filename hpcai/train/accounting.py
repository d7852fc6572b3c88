"""Check that a group trained on exactly the samples of an epoch: count and fingerprint of the delivered indices.

The expected fingerprint is computed independently of the loader: from the draws of the whole epoch, less those left
out, in contiguous chunks unrelated to the ranks' shards.
"""

from collections.abc import Callable, Iterator
from functools import cached_property

import numpy as np
from mpi4py import MPI

from hpcai.comm.grid import Group
from hpcai.data.bootstrap import Poisson, Sampler
from hpcai.data.order import Order, Shard
from hpcai.data.philox import Integers
from hpcai.formulas.sample_fingerprint import fingerprint

_CHUNK = 1 << 16  # draws per chunk
_MODULUS = 1 << 63


class SampleAccount:
    """Indices of the samples that the loader delivered to this rank in an epoch.

    8 bytes a sample, allocated before the clock.
    """

    def __init__(self, sampler: Sampler, group: Group, batch: int, order: Callable[[int], Order]) -> None:
        """Depends on what the ranks of a group share and on this rank's number in it, not on its shard.

        order: the order of an epoch, the same on all ranks of the group.
        """
        self._sampler, self._group, self._batch, self._order = sampler, group, batch, order
        self._samples = Shard(sampler.size, 0, group.divided.replicas, batch).samples
        self._delivered = np.empty(self._samples, np.int64)
        self._count = 0

    def begin(self) -> None:
        """Forget the indices of the epoch before."""
        self._count = 0

    def note(self, indices: Integers) -> None:
        """Record a delivered batch: a copy of microseconds. Indices beyond the epoch's length are counted only."""
        room = self._delivered[self._count : self._count + len(indices)]
        room[:] = indices[: len(room)]
        self._count += len(indices)

    def differs(self, epoch: int, start: int, end: int) -> bool:
        """Whether the group got any other samples than those of steps `start`, ... `end` - 1 of `epoch`.

        Compares the count and the sum of the samples' fingerprints modulo 2^63. Each part of a
        replica has to get them. Collective over the group, the same on all its ranks.
        """
        delivered = self._delivered[: self._count]
        chunks = (delivered[begin : begin + _CHUNK] for begin in range(0, len(delivered), _CHUNK))
        prints = sum(map(fingerprint, chunks)) % _MODULUS
        last = min(end * self._batch, self._samples)
        expected = (self._of_all_draws - self._left_out(epoch, start, last)) % _MODULUS
        sums = np.array([self._count, prints, expected], np.uint64)
        self._group.replicas.Allreduce(sums.copy(), sums)
        count, prints, expected = map(int, sums)
        due = self._group.divided.replicas * (last - start * self._batch)
        wrong = count != due or prints % _MODULUS != expected % _MODULUS
        return bool(self._group.parts.allreduce(wrong, MPI.MAX))

    @cached_property
    def _of_all_draws(self) -> int:
        """Fingerprint of this rank's chunk of all draws of the sampler, in any order; the same in every epoch."""
        return sum(map(fingerprint, self._drawn())) % _MODULUS

    def _drawn(self) -> Iterator[Integers]:
        # by sample: finding one draw costs 64 times as much as counting a sample's draws
        if isinstance(self._sampler, Poisson):
            for samples in self._chunks(0, self._sampler.samples):
                yield np.repeat(samples, self._sampler.counts(samples))
        else:
            yield from map(self._sampler.draw, self._chunks(0, self._sampler.size))

    def _left_out(self, epoch: int, start: int, end: int) -> int:
        """Fingerprint of this rank's chunk of positions before step `start`, and from a rank's sample `end` on."""
        order, replicas = self._order(epoch), self._group.divided.replicas
        bounds = ((0, replicas * start * self._batch), (replicas * end, self._sampler.size))
        chunks = (chunk for first, last in bounds for chunk in self._chunks(first, last))
        return sum(fingerprint(self._sampler.draw(order(chunk))) for chunk in chunks)

    def _chunks(self, first: int, last: int) -> Iterator[Integers]:
        """The integers first ... last - 1, divided contiguously among the ranks of the group."""
        rank, ranks = self._group.place.replica, self._group.divided.replicas
        begin, end = (first + (last - first) * part // ranks for part in (rank, rank + 1))
        for at in range(begin, end, _CHUNK):
            yield np.arange(at, min(at + _CHUNK, end))
