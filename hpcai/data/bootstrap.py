"""Bootstrap samplers of the base models (bagging): which training samples member m sees, and how often.

A sampler is a function and never copies data; it is the same on every rank of a group and on every machine.
"""

from functools import cached_property
from typing import Protocol

import numpy as np
import numpy.typing as npt

from hpcai.data.philox import Integers, Purpose, Words, below, stream, uniform64

Mask = npt.NDArray[np.bool_]

_CHUNK = 1 << 16  # draws at a time in a pass over all n


class Sampler(Protocol):
    """One epoch of one member: draws 0 … size - 1 out of samples 0 … samples - 1; draw k is always the same sample."""

    samples: int
    size: int

    def draw(self, k: Integers) -> Integers:
        """Sample indices of the draws k, int64 of the same shape."""

    def in_bag(self, start: int, stop: int) -> Mask:
        """For the samples start … stop - 1: whether the member trains on them."""


def sampler(kind: str, n: int, seed: int, member: int, members: int) -> Sampler:
    """Sampler of one member: `multinomial` or `poisson`, but a single model (members = 1) uses the whole set."""
    if members == 1:
        return Whole(n)
    return Poisson(n, seed, member) if kind == "poisson" else Multinomial(n, seed, member)


class Whole:
    """All n samples, each once, for P = 1 (HPC AI500 V2)."""

    def __init__(self, n: int) -> None:
        self.samples = self.size = n

    def draw(self, k: Integers) -> Integers:
        """The draws themselves."""
        return k

    def in_bag(self, start: int, stop: int) -> Mask:
        """Every sample is trained on."""
        return np.ones(stop - start, np.bool_)


class Multinomial:
    """Exactly n draws with replacement; draw k is a function of (seed, member, k). Source: HPC AI500 V3, section 3."""

    def __init__(self, n: int, seed: int, member: int) -> None:
        self.samples = self.size = n
        self._seed = seed
        self._stream = stream(Purpose.MULTINOMIAL, member)

    def draw(self, k: Integers) -> Integers:
        """Sample indices of the draws k (0 … n - 1), int64 of the same shape; needs no memory in n."""
        return below(self.size, self._seed, self._stream, k)

    def in_bag(self, start: int, stop: int) -> Mask:
        """Whether samples start … stop - 1 are drawn at all; the first call makes all n draws and keeps n bytes."""
        return self._drawn[start:stop]

    @cached_property
    def _drawn(self) -> Mask:
        drawn = np.zeros(self.size, np.bool_)
        for start in range(0, self.size, _CHUNK):
            drawn[self.draw(np.arange(start, min(start + _CHUNK, self.size)))] = True
        return drawn


class Poisson:
    """Sample i appears Poisson(1) times, a function of (seed, member, i); the number of draws differs between members.

    Keeps one cumulative count for every 64 samples, n / 8 bytes.
    """

    _BLOCK = 64

    def __init__(self, n: int, seed: int, member: int) -> None:
        self.samples = n
        self._seed = seed
        self._stream = stream(Purpose.POISSON, member)
        self._before = self._cumulative()
        self.size = int(self._before[-1])

    def counts(self, samples: Integers) -> Integers:
        """How often each of the samples appears, int64 of the same shape; 0 outside [0, n)."""
        draws = uniform64(self._seed, self._stream, samples)
        return np.searchsorted(_THRESHOLDS, draws, side="right") * (samples < self.samples)

    def draw(self, k: Integers) -> Integers:
        """Sample indices of the draws k (0 … size - 1), int64 of the same shape."""
        flat = np.reshape(k, -1)
        parts = [self._find(flat[start : start + 1024]) for start in range(0, len(flat), 1024)]
        return np.concatenate([np.empty(0, np.int64), *parts]).reshape(np.shape(k))

    def in_bag(self, start: int, stop: int) -> Mask:
        """Whether samples start … stop - 1 appear at least once."""
        return self.counts(np.arange(start, stop)) > 0

    def _find(self, k: Integers) -> Integers:
        block = np.searchsorted(self._before, k, side="right") - 1
        samples = block[:, None] * self._BLOCK + np.arange(self._BLOCK)
        up_to = self._before[block][:, None] + np.cumsum(self.counts(samples), axis=1)
        within: Integers = np.sum(up_to <= k[:, None], axis=1)
        return block * self._BLOCK + within

    def _cumulative(self) -> Integers:
        blocks = -(-self.samples // self._BLOCK)
        before = np.zeros(blocks + 1, np.int64)
        step = _CHUNK // self._BLOCK
        for first in range(0, blocks, step):
            last = min(first + step, blocks)
            samples = np.arange(first * self._BLOCK, last * self._BLOCK)
            before[first + 1 : last + 1] = self.counts(samples).reshape(-1, self._BLOCK).sum(axis=1)
        return np.cumsum(before)


def _poisson_thresholds() -> Words:
    """Draws below threshold j mean a count of at most j: 2^64 · e⁻¹ · Σ_{i ≤ j} 1/i!, rounded down, in integers."""
    terms = [1 << 256]
    while terms[-1]:
        terms.append(terms[-1] // len(terms))
    sums = [(sum(terms[: j + 1]) << 64) // sum(terms) for j in range(len(terms))]
    return np.array([s for s in sums if s < 1 << 64], np.uint64)


_THRESHOLDS = _poisson_thresholds()
