"""Convergence of a search: whether its score has stopped changing, by the trials that returned."""

from collections.abc import Sequence
from math import ceil

from hpcai.formulas import aiperf
from hpcai.formulas.aiperf import Credit
from hpcai.networks.graph import Graph
from hpcai.networks.lineage import morphed
from hpcai.networks.morphism import Morphism
from hpcai.record.trial import Trial

NOTHING = Credit(0.0, 0, 0, 0.0)
POINTS = 20  # of the score over time in a window, which are compared


class Convergence:
    """The score over time of a running search, on rank 0; it keeps sums for the last window only."""

    def __init__(self, initial: Graph, window: float, samples: int) -> None:
        """`window`: seconds in which a converged score changes by less than 1 %; `samples`: of a validation."""
        self._initial, self._window, self._samples = initial, window, samples
        self._step = window / POINTS
        self._sums: dict[int, Credit] = {}  # by the number of the point that they come before
        self._asked = 0.0
        self._first = 1  # number of the first point that is compared

    def add(self, trial: Trial, chain: Sequence[Morphism]) -> None:
        """Add a trial that returned; `chain` leads to its network from the initial one."""
        work = aiperf.work(morphed(self._initial, chain))
        for credit in aiperf.credits(trial.curve, work):
            point = max(ceil(credit.seconds / self._step), self._first)
            self._sums[point] = _sum(self._sums.get(point, NOTHING), credit)

    def reached(self, now: float) -> bool:
        """Whether the score has converged at `now` seconds; computes it a few times in a window."""
        if now < self._asked + self._step or now < self._window:
            return False
        self._asked = now
        self._merge(int((now - self._window) / self._step))
        points = aiperf.series([*self._sums.values()], [], now, self._step, self._samples, self._first)
        return aiperf.converged(points, self._window)

    def _merge(self, first: int) -> None:
        """Add up the sums before a point."""
        self._first = max(first, 1)
        for point in [point for point in self._sums if point < self._first]:
            self._sums[self._first] = _sum(self._sums.get(self._first, NOTHING), self._sums.pop(point))


def _sum(one: Credit, other: Credit) -> Credit:
    return Credit(
        max(one.seconds, other.seconds),
        one.training + other.training,
        one.validation + other.validation,
        max(one.accuracy, other.accuracy),
    )
