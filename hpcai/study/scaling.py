"""Scaling over ranks: the test with the fewest is the reference of the others, also of other jobs."""

from abc import abstractmethod
from collections.abc import Sequence

from hpcai.formulas import score
from hpcai.record.entry import Row
from hpcai.results.gains import GRID
from hpcai.study.figure import Cell, Curve, Drawing, FigureOfTests

GIGA = 1e9
COLUMNS = ("P", "Q", "ranks", "GFLOP/s", "Valid GFLOP/s", "samples/s", "quality", "parallel efficiency")


def ranks(test: Row) -> int:
    """Ranks that a test uses."""
    return test.p * test.q


def by_ranks(tests: Sequence[Row]) -> list[Row]:
    """Tests by their ranks, and by P among equals."""
    return sorted(tests, key=lambda test: (ranks(test), test.p))


def efficiency(test: Row, reference: Row) -> float:
    """Rate of a rank relative to the reference's."""
    return score.efficiency(test.scores.flops, ranks(test), reference.scores.flops, ranks(reference))


def columns(test: Row, reference: Row) -> tuple[Cell, ...]:
    """A row of COLUMNS."""
    scores = test.scores
    rates = (scores.flops / GIGA, scores.valid_flops / GIGA, scores.samples_per_second)
    return (test.p, test.q, ranks(test), *rates, scores.quality, efficiency(test, reference))


class OverGrids(FigureOfTests):
    """A figure whose tests differ in their process grid."""

    varied = GRID

    def draw(self, tests: Sequence[Row]) -> Drawing:
        ordered = by_ranks(tests)
        return Drawing(COLUMNS, tuple(columns(test, ordered[0]) for test in ordered), self.curves(ordered))

    @abstractmethod
    def curves(self, tests: Sequence[Row]) -> tuple[Curve, ...]:
        """Curves of tests in the order of their ranks."""
