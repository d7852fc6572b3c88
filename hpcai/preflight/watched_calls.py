"""Calls of a provider whose stretches are timed by the second clock as well, where they are handed out and checked."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from hpcai.preflight.block_timing import Call, Rotation
from hpcai.second_clock import CallTimes


@dataclass(frozen=True)
class WatchedRotation(Rotation):
    """A rotation with its times by the second clock; on CPUs only, since a GPU's events leave out what is between."""

    times: CallTimes = field(default_factory=CallTimes)

    def drawn(self, times: int) -> tuple[list[Call], int]:
        """As of the rotation; the calls are counted."""
        calls, last = super().drawn(times)
        self.times.handed(len(calls))
        return calls, last


def watched(rotation: Rotation) -> WatchedRotation:
    """The rotation; the clock is read after the result is poisoned, and before it is checked."""
    times = CallTimes()

    def check(last: int) -> None:
        times.end()
        rotation.check(last)

    begin, poison = _then(rotation.begin, times.block), _then(rotation.poison, times.begin)
    return WatchedRotation(rotation.calls, begin, poison, check, times)


def _then(one: Callable[[], Any], other: Callable[[], None]) -> Callable[[], None]:
    def both() -> None:
        one()
        other()

    return both
