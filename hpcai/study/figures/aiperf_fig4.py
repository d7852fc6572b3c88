"""Figure 4 of AIPerf: operations per second and regulated score of a search over time, by number of workers."""

from collections.abc import Sequence

from hpcai.record.entry import Row
from hpcai.results.gains import GRID
from hpcai.study.figure import Curve, Drawing, FigureOfTests
from hpcai.study.figures import FIGURES
from hpcai.study.scaling import GIGA, by_ranks, ranks

COLUMNS = (
    *("groups", "ranks", "highest OPS, 10^9", "OPS of a rank, 10^9", "regulated score, 10^9", "error", "trials"),
)


@FIGURES.register("aiperf_fig4")
class AIPerfFig4(FigureOfTests):
    """OPS and regulated score over time; the table has the scores at the end by the number of groups."""

    title = "Scores of searches over time"
    paper = "AIPerf, Fig. 4: near-linear weak scaling, digits not published"
    x, y = "time of the search, s", "10^9 operations/s"
    score = "highest_ops"
    varied = GRID

    def draw(self, tests: Sequence[Row]) -> Drawing:
        ordered = by_ranks(tests)
        curves = (curve for test in ordered for curve in (_over_time(test, "ops"), _over_time(test, "regulated_score")))
        return Drawing(COLUMNS, tuple(map(_row, ordered)), tuple(curves))


def _over_time(test: Row, name: str) -> Curve:
    words = {"ops": "OPS", "regulated_score": "regulated score"}
    points = tuple((point.seconds, getattr(point, name) / GIGA) for point in test.scores.series)
    return Curve(f"{words[name]}, {test.p} x {test.q}", points)


def _row(test: Row) -> tuple[str | int | float | None, ...]:
    scores, highest = test.scores, test.scores.highest_ops
    last = scores.series[-1]
    of_rank = None if highest is None else highest / GIGA / ranks(test)
    return (
        *(test.p, ranks(test), None if highest is None else highest / GIGA, of_rank),
        *(None if scores.regulated_score is None else scores.regulated_score / GIGA, last.error, last.trials),
    )
