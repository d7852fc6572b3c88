"""Interface of a figure: which tests it takes, what may differ between them, and the table and curves it makes."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from hpcai.record.entry import Row

Cell = str | int | float | None


@dataclass(frozen=True)
class Curve:
    """Points of one line of a figure."""

    label: str
    points: tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class Published:
    """Digits of a paper, with their source; drawn beside ours, never among them."""

    source: str
    x: str
    y: str
    curves: tuple[Curve, ...]


@dataclass(frozen=True)
class Drawing:
    """What a figure makes of tests: a table, and curves or, with `bars`, stacked shares by name."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    curves: tuple[Curve, ...] = ()
    bars: tuple[tuple[str, dict[str, float]], ...] = ()


class Figure(ABC):
    """A figure or table of a paper.

    score: a score that its tests have; by default one of trainings of models together. varied: KEYs in which its tests
    may differ, while they agree in all others; None: in all.
    """

    title: ClassVar[str]
    paper: ClassVar[str]
    x: ClassVar[str] = ""
    y: ClassVar[str] = ""
    score: ClassVar[str] = "valid_flops"
    varied: ClassVar[tuple[str, ...] | None] = ()
    published: ClassVar[Published | None] = None

    def takes(self, test: Row) -> bool:
        """Whether a test belongs to the figure."""
        return hasattr(test.scores, self.score)

    @abstractmethod
    def draw(self, tests: Sequence[Row]) -> Drawing:
        """Table and curves of tests that belong together, one at least."""
