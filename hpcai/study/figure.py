"""Interface of a figure: which tests it takes, what may differ between them, and the table and curves it makes."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from hpcai.record.entry import Row
from hpcai.workloads.kernels.record import KernelRow

Cell = str | int | float | None


@dataclass(frozen=True)
class Curve:
    """Points of one line of a figure; `band`: lowest and highest value at each of them, if they are means."""

    label: str
    points: tuple[tuple[float, float], ...]
    band: tuple[tuple[float, float], ...] = ()


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


@dataclass(frozen=True)
class KernelTable:
    """A table of products: ranks that computed at once, and its rows."""

    ranks: int
    rows: tuple[KernelRow, ...]


class Figure(ABC):
    """A figure or table of a paper, or of projections. made: what ours are, over the drawing."""

    title: ClassVar[str]
    paper: ClassVar[str]
    x: ClassVar[str] = ""
    y: ClassVar[str] = ""
    published: ClassVar[Published | None] = None
    made: ClassVar[str] = "measured here"

    @abstractmethod
    def of_files(self, paths: Sequence[Path], read: "Read") -> Drawing:
        """Table and curves of verified results; `read` is hpcai.study.reading.read, and raises its InputError."""


class FigureOfTests(Figure):
    """A figure of tests, and of the tables of products of their results.

    score: a score that its tests have; by default one of trainings of models together. varied: KEYs in which its tests
    may differ, while they agree in all others; None: in all. of_results: whether it is drawn from results; else it
    needs none. of_tables: whether it has the tables of products too; they agree.
    """

    score: ClassVar[str] = "valid_flops"
    varied: ClassVar[tuple[str, ...] | None] = ()
    of_tables: ClassVar[bool] = False
    of_results: ClassVar[bool] = True

    def takes(self, test: Row) -> bool:
        """Whether a test belongs to the figure."""
        return hasattr(test.scores, self.score)

    def family(self, test: Row) -> str:
        """Tests of different families need not agree; by default all are of one."""
        return ""

    def of_files(self, paths: Sequence[Path], read: "Read") -> Drawing:
        return self.drawn(*read(paths, self))

    def drawn(self, tests: Sequence[Row], tables: Sequence[KernelTable]) -> Drawing:
        """Table and curves of tests and of the tables of products of their results."""
        return self.draw(tests)

    @abstractmethod
    def draw(self, tests: Sequence[Row]) -> Drawing:
        """Table and curves of tests that belong together, one at least; none if it is not of results."""


Read = Callable[[Sequence[Path], FigureOfTests], tuple[list[Row], list[KernelTable]]]
