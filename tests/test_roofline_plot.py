"""The plot of the roofline: positions, labels that do not overlap, and results without it."""

from pathlib import Path
from typing import Any

import pytest
from examples.training import stored
from matplotlib.figure import Figure
from matplotlib.text import Text
from msgspec.structs import replace
from small_run import golden
from test_result_roofline import after, computing, network, reduced

from hpcai.record.loading import result_of
from hpcai.record.result import Result
from hpcai.report import plots, rooflines
from hpcai.results.measured import Measured
from hpcai.workloads.ensemble.checks import build


def without_kernels() -> Result:
    """The stored result."""
    return result_of(golden())


def measured(copies: int = 1) -> Result:
    """The stored result as if kernels had been measured before its tests, each of which occurs `copies` times."""
    kernels = computing()
    before = after(kernels, network(reduced(seconds=3.0)))
    subjects = stored("ensemble") * copies
    tests = [build(each.case, Measured(each.entry.raw, each.entry.memory), before) for each in subjects]
    numbered = tuple(replace(test, index=index) for index, test in enumerate(tests, 2))
    return replace(without_kernels(), tables=tuple(kernels.tables), kernels=tuple(kernels.kernels), tests=numbered)


def drawn(*runs: rooflines.Run) -> Any:
    axes = Figure(figsize=(9, 5.5), layout="constrained").add_subplot()
    rooflines.plot(axes, runs)
    axes.figure.draw_without_rendering()
    return axes


def by_label(axes: Any, word: str) -> Any:
    (found,) = [marks for marks in axes.collections if word in marks.get_label()]
    return found


def test_the_roofline_is_drawn_with_the_other_plots(tmp_path: Path) -> None:
    made = plots.draw([measured(), without_kernels()], tmp_path)
    assert [path.name for path in made] == ["learning.png", "scaling.png", "phases.png", "roofline.png"]
    assert (tmp_path / "roofline.png").stat().st_size > 20_000


def test_the_roofline_is_drawn_of_kernels_alone(tmp_path: Path) -> None:
    assert [path.name for path in plots.draw([replace(measured(), tests=())], tmp_path)] == ["roofline.png"]


def test_without_kernels_there_is_no_plot(tmp_path: Path) -> None:
    assert rooflines.drawable([("", without_kernels())]) == []


def test_tests_and_kernels_are_drawn_at_their_measurements() -> None:
    result = measured()
    axes = drawn(("", result))
    placed = [test.scores.roofline for test in result.tests]
    expected = [[found.intensity.memory, found.rate / 1e9] for found in placed]
    assert by_label(axes, "training").get_offsets().tolist() == expected
    rows = [row for row in result.kernels if row.provider == "vendor" and row.of != "ceiling"]
    assert by_label(axes, "vendor").get_offsets().tolist() == [[row.intensity, row.gflops] for row in rows]
    bars = [marks.get_offsets().tolist() for marks in axes.collections if marks.get_label().startswith("_")]
    assert bars == [[[found.intensity.memory, found.ceilings.attainable / 1e9]] for found in placed]


def test_levels_begin_at_the_slope_of_the_memory() -> None:
    lines = {tuple(line.get_ydata()): list(line.get_xdata()) for line in drawn(("", measured())).get_lines()}
    (peak,) = [xs for ys, xs in lines.items() if ys == pytest.approx((8.0, 8.0))]
    assert peak[0] == pytest.approx(8 / 2.4)
    (slope,) = [(xs, ys) for ys, xs in lines.items() if ys[0] != ys[1]]
    assert slope[1][1] == pytest.approx(8.0) and slope[1][0] == pytest.approx(2.4 * slope[0][0])


def test_missing_ceilings_are_not_drawn() -> None:
    (table,) = measured().tables
    ceilings = replace(table.ceilings, fma_peak=None, gemm=None, triad=None)
    result = replace(measured(), tables=(replace(table, ceilings=ceilings),))
    assert len(drawn(("", result)).get_lines()) == 1


def test_names_do_not_overlap() -> None:
    axes = drawn(("A", measured(4)), ("B", measured(2)))
    names = [text for text in axes.texts if text.get_text()]
    assert len(names) == 12 + 6
    assert {"A2", "B5", "A GEMM 1"} <= {text.get_text() for text in names}
    boxes = [Text.get_window_extent(text, axes.figure._get_renderer()) for text in names]  # without the connecting line
    assert not [(one, two) for i, one in enumerate(boxes) for two in boxes[:i] if one.overlaps(two)]
