"""A second clock, independent of hpcai.clock: what that one measures is compared with it.

Linux' raw monotonic clock is not adjusted by the network's time, and no other module reads it.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
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
