"""Interface of a figure: which tests it takes, what may differ between them, and the table and curves it makes."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from hpcai.record.entry import Row

Cell = str | int | float | None
UNRELATED = ("",)  # `varied` of a figure whose tests need not agree


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

    varied: KEYs in which its tests may differ; in all others they must agree.
    """

    title: ClassVar[str]
    paper: ClassVar[str]
    x: ClassVar[str] = ""
    y: ClassVar[str] = ""
    varied: ClassVar[tuple[str, ...]] = ()
    published: ClassVar[Published | None] = None

    def takes(self, test: Row) -> bool:
        """Whether a test belongs to the figure: by default those that train models together."""
        return hasattr(test.scores, "valid_flops")

    @abstractmethod
    def draw(self, tests: Sequence[Row]) -> Drawing:
        """Table and curves of tests that belong together, one at least."""
