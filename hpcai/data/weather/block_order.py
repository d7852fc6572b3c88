"""Order of an epoch over frames that are read in blocks: random blocks, and random frames within each block."""

from functools import cached_property

import numpy as np

from hpcai.data.bootstrap import Sampler
from hpcai.data.order import EpochOrder
from hpcai.data.philox import Integers

_WITHIN = 1 << 31  # epochs of the order within blocks, apart from those of the order of the blocks


class BlockOrder:
    """A bijection on [0, n) whose positions r, r + ranks, … visit one block after the other, for each rank r.

    begins: the first index of each block, and n, int64; the same on every rank. The randomly ordered blocks are cut
    into one run for each rank, so that a block is read by one rank, or by two if a cut falls into it; the remainder
    comes last.
    """

    def __init__(self, begins: Integers, seed: int, epoch: int, ranks: int = 1) -> None:
        self.n = int(begins[-1])
        self._begins, self._seed, self._epoch, self._ranks = begins, seed, epoch, ranks

    def __call__(self, positions: Integers) -> Integers:
        """Images of the positions (int64, in [0, n)) under the bijection: int64 in [0, n), of the same shape."""
        each = self.n // self._ranks
        step, rank = np.divmod(positions, self._ranks)
        return self._laid_out[np.where(step < each, rank * each + step, positions)]

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
    """The draws of a sampler ordered by block: a bijection on [0, size) in which draws of one block are neighbours.

    begins: the first frame of each block, and the number of frames, int64; the same on every rank. Keeps 16 bytes a
    draw.
    """

    def __init__(self, sampler: Sampler, begins: Integers, seed: int, epoch: int, ranks: int = 1) -> None:
        self.n = sampler.size
        drawn = sampler.draw(np.arange(sampler.size))
        self._by_frame = np.argsort(drawn, kind="stable")
        self._order = BlockOrder(np.searchsorted(drawn[self._by_frame], begins), seed, epoch, ranks)

    def __call__(self, positions: Integers) -> Integers:
        """Draws at the positions (int64, in [0, size)) of the epoch: int64, of the same shape."""
        return self._by_frame[self._order(positions)]
