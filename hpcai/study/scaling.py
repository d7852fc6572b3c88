"""Scaling over ranks: the test with the fewest is the reference of the others, also of other jobs."""

from abc import abstractmethod
from collections.abc import Sequence

from hpcai.formulas import score
from hpcai.record.entry import Row
from hpcai.results.gains import GRID
from hpcai.study.figure import Cell, Curve, Drawing, FigureOfTests
from hpcai.workloads.registry import quality_of

GIGA = 1e9
RATES = ("GFLOP/s", "Valid GFLOP/s", "samples/s")


def ranks(test: Row) -> int:
    """Ranks that a test uses."""
    return test.p * test.q


def by_ranks(tests: Sequence[Row]) -> list[Row]:
    """Tests by their ranks, and by P among equals."""
    return sorted(tests, key=lambda test: (ranks(test), test.p))


def efficiency(test: Row, reference: Row) -> float:
    """Rate of a rank relative to the reference's."""
    return score.efficiency(test.scores.flops, ranks(test), reference.scores.flops, ranks(reference))


def columns(test: Row) -> tuple[str, ...]:
    """The columns of a table; of the quality with its name, since it is no share of right answers in every workload."""
    return ("P", "Q", "ranks", *RATES, f"quality, {quality_of(test.workload).name}", "parallel efficiency")


def cells(test: Row, reference: Row) -> tuple[Cell, ...]:
    """A row of the table."""
    scores = test.scores
    rates = (scores.flops / GIGA, scores.valid_flops / GIGA, scores.samples_per_second)
    return (test.p, test.q, ranks(test), *rates, scores.quality, efficiency(test, reference))


class OverGrids(FigureOfTests):
    """A figure whose tests differ in their process grid."""

    varied = GRID

    def draw(self, tests: Sequence[Row]) -> Drawing:
        ordered = by_ranks(tests)
        rows = tuple(cells(test, ordered[0]) for test in ordered)
        return Drawing(columns(ordered[0]), rows, self.curves(ordered))

    @abstractmethod
    def curves(self, tests: Sequence[Row]) -> tuple[Curve, ...]:
        """Curves of tests in the order of their ranks."""
