"""Which samples a group trained on in an epoch, as they were delivered, against those that the epoch consists of.

What is expected is worked out by another way than what is trained: the draws of the whole epoch, less those left out,
in contiguous chunks that have nothing to do with the ranks' own shards.
"""

from collections.abc import Callable, Iterator
from functools import cached_property

import numpy as np

from hpcai.comm.grid import Group
from hpcai.data.bootstrap import Poisson, Sampler
from hpcai.data.order import Order, Shard
from hpcai.data.philox import Integers
from hpcai.formulas.sample_fingerprint import fingerprint

_CHUNK = 1 << 16  # draws at a time
_MODULUS = 1 << 63


class Account:
    """The indices that this rank was given in an epoch, in memory that is there before; 8 bytes a sample."""

    def __init__(self, sampler: Sampler, group: Group, batch: int, order: Callable[[int], Order]) -> None:
        """Made of what a group's ranks have in common, and of this rank's seat; not of its shard.

        `order`: of an epoch, the same on all ranks of the group.
        """
        self._sampler, self._group, self._batch, self._order = sampler, group, batch, order
        self._samples = Shard(sampler.size, 0, group.degree, batch).samples
        self._delivered = np.empty(self._samples, np.int64)
        self._count = 0

    def begin(self) -> None:
        """Forget what was delivered before."""
        self._count = 0

    def note(self, indices: Integers) -> None:
        """A batch was delivered; a copy of some microseconds, what is too much is only counted."""
        room = self._delivered[self._count : self._count + len(indices)]
        room[:] = indices[: len(room)]
        self._count += len(indices)

    def differs(self, epoch: int, start: int) -> bool:
        """Whether the group was given other samples, more or fewer than steps `start`, ... of `epoch` consist of.

        Compares their number and the sum of their scrambled indices modulo 2^63. Collective over the group, the same
        on all its ranks.
        """
        delivered = self._delivered[: self._count]
        chunks = (delivered[begin : begin + _CHUNK] for begin in range(0, len(delivered), _CHUNK))
        prints = sum(map(fingerprint, chunks)) % _MODULUS
        expected = (self._of_all_draws - self._left_out(epoch, start)) % _MODULUS
        sums = np.array([self._count, prints, expected], np.uint64)
        self._group.model.Allreduce(sums.copy(), sums)
        count, prints, expected = map(int, sums)
        due = self._group.degree * (self._samples - start * self._batch)
        return count != due or prints % _MODULUS != expected % _MODULUS

    @cached_property
    def _of_all_draws(self) -> int:
        """This rank's chunk of all draws of the sampler, whatever their order; the same in every epoch."""
        return sum(map(fingerprint, self._drawn())) % _MODULUS

    def _drawn(self) -> Iterator[Integers]:
        if isinstance(self._sampler, Poisson):  # by sample: to find a draw costs 64 times as much as to count it
            for samples in self._chunks(0, self._sampler.samples):
                yield np.repeat(samples, self._sampler.counts(samples))
        else:
            yield from map(self._sampler.draw, self._chunks(0, self._sampler.size))

    def _left_out(self, epoch: int, start: int) -> int:
        """This rank's chunk of the positions before step `start`, and of those that no rank takes."""
        order, degree = self._order(epoch), self._group.degree
        bounds = ((0, degree * start * self._batch), (degree * self._samples, self._sampler.size))
        chunks = (chunk for first, last in bounds for chunk in self._chunks(first, last))
        return sum(fingerprint(self._sampler.draw(order(chunk))) for chunk in chunks)

    def _chunks(self, first: int, last: int) -> Iterator[Integers]:
        """The integers first ... last - 1, divided among the ranks of the group in their order."""
        rank, ranks = self._group.coordinates.member, self._group.degree
        begin, end = (first + (last - first) * part // ranks for part in (rank, rank + 1))
        for at in range(begin, end, _CHUNK):
            yield np.arange(at, min(at + _CHUNK, end))
