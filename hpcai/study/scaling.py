"""Scaling over ranks: the test with the fewest is the reference of the others, also of other jobs."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from hpcai.formulas import score
from hpcai.record.entry import Row
from hpcai.study.figure import Cell, Curve, Drawing, Figure

GIGA = 1e9
GRID = ("GROUPS", "DEGREE", "MAPPING")


def ranks(test: Row) -> int:
    """Ranks that a test uses."""
    return test.p * test.q


def by_ranks(tests: Sequence[Row]) -> list[Row]:
    """Tests by their ranks, and by P among equals."""
    return sorted(tests, key=lambda test: (ranks(test), test.p))


def efficiency(test: Row, reference: Row) -> float:
    """Rate of a rank relative to the reference's."""
    return score.efficiency(test.scores.flops, ranks(test), reference.scores.flops, ranks(reference))


@dataclass(frozen=True)
class Line:
    """The columns that figures about grids share."""

    test: Row
    reference: Row

    NAMES: ClassVar[tuple[str, ...]] = (
        *("P", "Q", "ranks", "GFLOP/s", "Valid GFLOP/s", "samples/s", "quality", "parallel efficiency"),
    )

    @property
    def cells(self) -> tuple[Cell, ...]:
        test, scores = self.test, self.test.scores
        rates = (scores.flops / GIGA, scores.valid_flops / GIGA, scores.samples_per_second)
        return (test.p, test.q, ranks(test), *rates, scores.quality, efficiency(test, self.reference))


class OverGrids(Figure):
    """A figure whose tests differ in their process grid."""

    varied = GRID

    def draw(self, tests: Sequence[Row]) -> Drawing:
        ordered = by_ranks(tests)
        rows = tuple(Line(test, ordered[0]).cells for test in ordered)
        return Drawing(Line.NAMES, rows, self.curves(ordered))

    def curves(self, tests: Sequence[Row]) -> tuple[Curve, ...]:
        """Curves of tests in the order of their ranks."""
        return ()
