"""Whether the score of a search has stopped to change, as far as the trials that came back tell."""

from math import ceil
from typing import Any

from hpcai.formulas import aiperf
from hpcai.formulas.aiperf import Credit
from hpcai.networks.graph import Graph
from hpcai.networks.lineage import changed

Json = dict[str, Any]
NOTHING = Credit(0.0, 0, 0, 0.0)
PARTS = 20  # of the window: the points of the score that are compared


class Convergence:
    """The score over time of a search that is going on; rank 0 has it. It keeps sums for the last window."""

    def __init__(self, initial: Graph, window: float, samples: int) -> None:
        """`window`: seconds in which the score changes by less than 1 %; `samples` are those of a validation."""
        self._initial, self._window, self._samples = initial, window, samples
        self._step = window / PARTS
        self._sums: dict[int, Credit] = {}  # by the point that they come before
        self._asked = 0.0
        self._first = 1  # of the points that are looked at

    def add(self, trial: Json, chain: list[Json]) -> None:
        """A trial has come back, whose network the morphisms of `chain` lead to."""
        each = aiperf.work(changed(self._initial, chain))
        for credit in aiperf.credits(trial, each):
            point = max(ceil(credit.seconds / self._step), self._first)
            self._sums[point] = _both(self._sums.get(point, NOTHING), credit)

    def reached(self, now: float) -> bool:
        """Whether the score has converged at `now` seconds; looks at it a few times in a window."""
        if now < self._asked + self._step or now < self._window:
            return False
        self._asked = now
        self._forget(int((now - self._window) / self._step))
        points = aiperf.series([*self._sums.values()], [], now, self._step, self._samples, self._first)
        return aiperf.converged(points, self._window)

    def _forget(self, first: int) -> None:
        """Add up what was before a point."""
        self._first = max(first, 1)
        for point in [point for point in self._sums if point < self._first]:
            self._sums[self._first] = _both(self._sums.get(self._first, NOTHING), self._sums.pop(point))


def _both(one: Credit, other: Credit) -> Credit:
    return Credit(
        max(one.seconds, other.seconds),
        one.training + other.training,
        one.validation + other.validation,
        max(one.accuracy, other.accuracy),
    )
