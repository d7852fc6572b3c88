"""The order of an epoch over frames that are read in blocks: blocks at random, and the frames within each."""

from functools import cached_property

import numpy as np

from hpcai.data.bootstrap import Sampler
from hpcai.data.order import EpochOrder
from hpcai.data.philox import Integers

_WITHIN = 1 << 31  # epochs of the order within blocks, apart from those of the order of the blocks


class BlockOrder:
    """A bijection on [0, n) whose positions r, r + ranks, … lead through one block after the other, for each rank r.

    begins: the first index of each block, and n, int64; the same on every rank. The blocks in their random order are
    cut into a run for each rank, so a block is read by one rank, or by two where a cut falls into it; what is left over
    comes last.
    """

    def __init__(self, begins: Integers, seed: int, epoch: int, ranks: int = 1) -> None:
        self.n = int(begins[-1])
        self._begins, self._seed, self._epoch, self._ranks = begins, seed, epoch, ranks

    def __call__(self, positions: Integers) -> Integers:
        """Where the positions (int64, in [0, n)) of the epoch lead: int64 in [0, n), of the same shape."""
        each = self.n // self._ranks
        turn, rank = np.divmod(positions, self._ranks)
        return self._laid_out[np.where(turn < each, rank * each + turn, positions)]

    @cached_property
    def _laid_out(self) -> Integers:
        sizes = np.diff(self._begins)
        numbers = EpochOrder(len(sizes), self._seed, self._epoch)(np.arange(len(sizes)))
        runs = [self._shuffled(int(number), int(sizes[number])) for number in numbers if sizes[number]]
        return np.concatenate(runs)

    def _shuffled(self, number: int, size: int) -> Integers:
        order = EpochOrder(size, self._seed, _WITHIN + (self._epoch * len(self._begins) + number) % _WITHIN)
        return self._begins[number] + order(np.arange(size))


class Blockwise:
    """The draws of a sampler block by block: a bijection on [0, size), in which draws of one block are neighbours.

    begins: the first frame of each block, and their number, int64. The same on every rank; keeps 16 bytes a draw.
    """

    def __init__(self, sampler: Sampler, begins: Integers, seed: int, epoch: int, ranks: int = 1) -> None:
        self.n = sampler.size
        drawn = sampler.draw(np.arange(sampler.size))
        self._by_frame = np.argsort(drawn, kind="stable")
        self._order = BlockOrder(np.searchsorted(drawn[self._by_frame], begins), seed, epoch, ranks)

    def __call__(self, positions: Integers) -> Integers:
        """Which draws the positions (int64, in [0, size)) of the epoch lead to: int64, of the same shape."""
        return self._by_frame[self._order(positions)]
