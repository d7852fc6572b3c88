"""The plots of a row of the lists, as inline SVG: what report/plots.py draws, of its own run."""

from collections.abc import Iterator, Sequence
from typing import Any

from msgspec import structs

from hpcai.ranking.page.svg import inline
from hpcai.record.entry import Row
from hpcai.record.result import Result
from hpcai.record.training import TrainingRow
from hpcai.report import plots, rooflines

SIZE = (7.5, 4.2)  # inches; the font has 10 points
SCALING, SCORE = "Scaling of the run: GFLOP/s and parallel efficiency over ranks", "score.png"
Chosen = tuple[str, plots.Draw, Sequence[Any]]


def drawn(result: Result, index: int | None, name: str) -> list[tuple[str, str]]:
    """Title and SVG of the plots of a test, or of the ceilings; `name` begins the ids in them.

    ImportError without matplotlib.
    """
    tests = [test for test in result.tests if test.index == index]
    chosen = [*_of_row(result, tests[0])] if tests else []
    chosen += _roofline(structs.replace(result, tests=tuple(tests)))
    return [
        (title, inline(plots.figure(plot, what, SIZE), f"{name}-{number}", title))
        for number, (title, plot, what) in enumerate(chosen)
    ]


def _of_row(result: Result, test: Row) -> Iterator[Chosen]:
    """Learning curve, score over time, and the sweep over ranks that the test is one of."""
    if isinstance(test, TrainingRow):
        yield "Quality over epochs", plots.by_epoch, [("", test)]
    for name, title, plot, shows in plots.kinds():
        if name == SCORE and shows(test):
            yield title, plot, [("", test)]
    sweep = [other for other in result.tests if other.workload == test.workload]
    if len({other.p * other.q for other in sweep}) > 1:
        yield SCALING, plots.scaling, [("", other) for other in sweep]


def _roofline(result: Result) -> Iterator[Chosen]:
    if roofs := rooflines.drawable([("", result)]):
        yield "Roofline of a rank", rooflines.plot, roofs
