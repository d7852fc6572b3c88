"""Figure 2 of HPC AI500 V2: share of a training's time by class of operator."""

from collections.abc import Sequence

from hpcai.record.entry import Row
from hpcai.record.plain import plain
from hpcai.study.figure import Drawing, FigureOfTests
from hpcai.study.figures import FIGURES


@FIGURES.register("v2_fig2")
class V2Fig2(FigureOfTests):
    """Stacked shares, a bar for each network, each by its first test."""

    title = "Share of the operators' time by class"
    paper = "HPC AI500 V2, Fig. 2: digits not published"
    x, y = "", "share of the operators' time"
    varied = None

    def draw(self, tests: Sequence[Row]) -> Drawing:
        shares = {_name(test): _shares(test) for test in reversed(tests)}
        bars = tuple(reversed(shares.items()))
        columns = ("network", *bars[0][1])
        return Drawing(columns, tuple((name, *found.values()) for name, found in bars), bars=bars)


def _name(test: Row) -> str:
    return f"{test.settings['NETWORK']}, {test.raw.dataset.name}"


def _shares(test: Row) -> dict[str, float]:
    return {name: float(share) for name, share in plain(test.scores.operator_shares).items()}
