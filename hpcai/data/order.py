"""Order of an epoch and each rank's part of it, as functions of the position: nothing is stored or exchanged."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from math import isqrt
from typing import Protocol

import numpy as np

from hpcai.data.bootstrap import Sampler
from hpcai.data.philox import Integers, Purpose, below, stream
from hpcai.errors import DataError

_FEISTEL_ROUNDS = 6
_BLOCK = 8192  # positions computed at a time, many steps of a small batch


class Order(Protocol):
    """A bijection on [0, n), different for each epoch, the same on every rank."""

    n: int

    def __call__(self, positions: Integers) -> Integers:
        """Images of the positions (int64, in [0, n)) under the bijection: int64 in [0, n), of the same shape."""


class EpochOrder:
    """A bijection on [0, n) in constant memory, different for each epoch, the same on every rank.

    A Feistel network over the mixed radix (left < a, right < b), a·b ≥ n, whose round functions are Philox draws;
    results of n or more follow their cycle until they fall below n (cycle walking). Source: Black and Rogaway,
    "Ciphers with arbitrary finite domains", CT-RSA 2002, sections 4 and 5.
    """

    def __init__(self, n: int, seed: int, epoch: int) -> None:
        if n < 1:
            raise DataError(f"an epoch of {n} samples; allowed: at least 1")
        self.n = n
        self._left = isqrt(n - 1) + 1
        self._right = -(-n // self._left)
        self._seed = seed
        self._streams = [stream(Purpose.EPOCH_ORDER, epoch, part) for part in range(_FEISTEL_ROUNDS)]

    def __call__(self, positions: Integers) -> Integers:
        """Images of the positions (int64, in [0, n)) under the bijection: int64 in [0, n), of the same shape."""
        flat = np.reshape(positions, -1)
        parts = [self._walk(flat[start : start + _BLOCK]) for start in range(0, len(flat), _BLOCK)]
        return np.concatenate([np.empty(0, np.int64), *parts]).reshape(np.shape(positions))

    def _walk(self, positions: Integers) -> Integers:
        found = self._permute(positions)
        while (outside := np.flatnonzero(found >= self.n)).size:
            found[outside] = self._permute(found[outside])
        return found

    def _permute(self, numbers: Integers) -> Integers:
        left, right = np.divmod(numbers, self._right)
        for part, number in enumerate(self._streams):
            if part % 2:
                right = (right + below(self._right, self._seed, number, left)) % self._right
            else:
                left = (left + below(self._left, self._seed, number, right)) % self._left
        return left * self._right + right


@dataclass(frozen=True)
class _Part(ABC):
    """One rank's part of n samples, in steps of `batch`: positions rank, rank + ranks, … below n.

    rank differs between the ranks of the group, the other fields do not.
    """

    n: int
    rank: int
    ranks: int
    batch: int

    @property
    @abstractmethod
    def samples(self) -> int:
        """Number of samples of this rank."""

    @property
    def steps(self) -> int:
        """Number of steps of this rank; the last step may be smaller."""
        return -(-self.samples // self.batch)

    def step_positions(self, step: int) -> Integers:
        """Positions of this rank at a step, int64."""
        return self.positions(step, step + 1)

    def positions(self, step: int, stop: int) -> Integers:
        """Positions of the steps step … stop - 1 in one array, int64."""
        return self.rank + self.ranks * np.arange(step * self.batch, min(stop * self.batch, self.samples))


@dataclass(frozen=True)
class Shard(_Part):
    """One rank's part of an epoch of n training samples, with equally many samples and steps on all ranks.

    Raises DataError if no step is left.
    """

    def __post_init__(self) -> None:
        if self.steps == 0:
            raise DataError(f"{self.n} training samples for {self.ranks} ranks; allowed: at least {2 * self.ranks}")

    @property
    def samples(self) -> int:
        """Samples that this rank trains on; a last batch of one is dropped, since batch normalisation needs two."""
        each = self.n // self.ranks
        return each - 1 if each % self.batch == 1 else each

    @property
    def rule(self) -> str:
        """The division of the epoch and the samples left out, in a sentence; the same on every rank."""
        last = self.samples - (self.steps - 1) * self.batch
        return (
            f"rank r of {self.ranks} takes positions r, r + {self.ranks}, ... of the epoch's {self.n}:"
            f" {self.steps} steps of {self.batch}, the last of {last}; {self.n - self.ranks * self.samples} left out"
        )


@dataclass(frozen=True)
class ValidationShard(_Part):
    """One rank's part of n validation samples: nothing is left out, every sample is taken by exactly one rank.

    The ranks' numbers of steps may differ by one and may be 0, so no step may wait for another rank.
    """

    @property
    def samples(self) -> int:
        """Samples that this rank evaluates."""
        return max(0, -(-(self.n - self.rank) // self.ranks))


def training_indices(shard: Shard, order: Order, sampler: Sampler, start: int = 0) -> Iterator[Integers]:
    """Sample indices (int64) of the steps start, start + 1, … of one rank's epoch: position → order → draw → sample."""
    if not shard.n == order.n == sampler.size:
        raise ValueError(f"shard of {shard.n}, order of {order.n} and sampler of {sampler.size} are not of one epoch")
    at_once = max(1, _BLOCK // shard.batch)
    for step in range(start, shard.steps, at_once):
        indices = sampler.draw(order(shard.positions(step, step + at_once)))
        yield from np.split(indices, range(shard.batch, len(indices), shard.batch))


def validation_indices(shard: ValidationShard, start: int = 0) -> Iterator[Integers]:
    """Sample indices (int64) of the steps start, start + 1, … of one rank's validation pass, in the set's own order."""
    return map(shard.step_positions, range(start, shard.steps))
