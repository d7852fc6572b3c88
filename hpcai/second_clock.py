"""A second clock, independent of hpcai.clock: what that one measures is compared with it.

Linux' raw monotonic clock is not adjusted by the network's time, and no other module reads it.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from statistics import median
from time import CLOCK_MONOTONIC_RAW, clock_gettime_ns
from typing import NamedTuple

CLOSE = 1e-3  # seconds within which a pair of readings is taken


def raw() -> float:
    """Seconds of the second clock, with an arbitrary origin; only differences on one rank are meaningful."""
    return clock_gettime_ns(CLOCK_MONOTONIC_RAW) * 1e-9


class Moment(NamedTuple):
    """A reading of the first clock and one of the second, at the same time."""

    first: float
    second: float


def moment(first: Callable[[], float]) -> Moment:
    """A pair of readings; repeated where the process was interrupted between them."""
    while True:
        before = raw()
        found, after = first(), raw()
        if after - before <= CLOSE:
            return Moment(found, (before + after) / 2)


@dataclass
class TimedRegion:
    """Parts of a rank's timed region by the second clock, and steps in and outside of them."""

    synchronise: Callable[[], None]  # waits for the device
    seconds: float = 0.0
    parts: int = 0
    steps: int = 0  # within parts
    outside: int = 0  # backward passes and updates elsewhere
    _open: bool = False

    @contextmanager
    def part(self) -> Iterator[None]:
        """A part of the region, at the beginning of which the device has finished its work."""
        begin = raw()
        self._open = True
        try:
            yield
        finally:
            self._open = False
            self.synchronise()
            self.seconds += raw() - begin
            self.parts += 1

    def backward(self) -> None:
        """A backward pass of a step begins."""
        self.outside += not self._open

    def update(self) -> None:
        """A step has changed the weights, or was skipped."""
        self.steps += self._open
        self.outside += not self._open


@dataclass
class CallTimes:
    """Times of calls by the second clock, in blocks of stretches; the first stretch counts if it is the only one."""

    _blocks: list[list[tuple[int, float]]] = field(default_factory=list)
    _calls: int = 0
    _begun: float = 0.0

    def block(self) -> None:
        """A block begins."""
        self._blocks.append([])

    def handed(self, calls: int) -> None:
        """So many calls are handed out for the next stretch."""
        self._calls = calls

    def begin(self) -> None:
        """A stretch begins."""
        self._begun = raw()

    def end(self) -> None:
        """A stretch has ended."""
        self._blocks[-1].append((self._calls, raw() - self._begun))

    @property
    def seconds(self) -> float:
        """Mean seconds of a call in a block; median of the blocks."""
        return median(_mean(stretches[1:] or stretches) for stretches in self._blocks)


def _mean(stretches: list[tuple[int, float]]) -> float:
    return sum(seconds for _, seconds in stretches) / sum(calls for calls, _ in stretches)


class CallInterval:
    """Seconds by the second clock from the begin of the first of some calls to the end of the last one."""

    def __init__(self) -> None:
        self._begun = self._ended = 0.0

    def around(self, calls: list[Callable[[], object]]) -> list[Callable[[], object]]:
        """The calls, of which the first and the last one read the clock."""
        first, *others = calls
        *inner, last = [lambda: self._begin(first), *others]
        return [*inner, lambda: self._end(last)]

    @property
    def seconds(self) -> float:
        return self._ended - self._begun

    def _begin(self, call: Callable[[], object]) -> None:
        self._begun = raw()
        call()

    def _end(self, call: Callable[[], object]) -> None:
        call()
        self._ended = raw()
