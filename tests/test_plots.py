"""Plots of results: drawn from the files' data, and refused in one line if impossible."""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from launch import ROOT
from msgspec.structs import replace
from small_run import GOLDEN, golden

from hpcai.errors import InputError
from hpcai.record.entry import Row
from hpcai.record.loading import result_of
from hpcai.record.record import fields
from hpcai.record.result import Result
from hpcai.report import plots

NAMES = ["learning.png", "phases.png", "scaling.png"]


def command(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    program = [sys.executable, "-m", "hpcai.report.plots", *map(str, arguments)]
    return subprocess.run(program, cwd=ROOT, capture_output=True, text=True)


@pytest.mark.slow
def test_command_draws_every_plot(tmp_path: Path) -> None:
    finished = command(GOLDEN, "--out", tmp_path / "made")
    assert finished.returncode == 0, finished.stderr
    assert sorted(path.name for path in (tmp_path / "made").iterdir()) == NAMES
    assert sorted(Path(line).name for line in finished.stdout.splitlines()) == NAMES
    for path in (tmp_path / "made").iterdir():
        assert path.read_bytes().startswith(b"\x89PNG") and path.stat().st_size > 10_000


def stored() -> Result:
    """The stored result."""
    return result_of(golden())


def axes_of(plot: Any, tests: Sequence[Row], runs: str = "") -> Any:
    """The axes of the given tests, each of the run with its own letter if there are several."""
    from matplotlib.figure import Figure

    axes = Figure().add_subplot()
    plot(axes, list(zip(runs or [""] * len(tests), tests, strict=True)))
    return axes


def test_the_learning_curve_is_that_of_the_first_model() -> None:
    tests = stored().tests
    first = axes_of(plots._learning, tests).get_lines()[0]
    curve, samples = tests[0].raw.curve, tests[0].raw.dataset.validation_samples
    assert list(first.get_ydata()) == [entry.correct / samples for entry in curve]
    assert list(first.get_xdata()) == [entry.seconds for entry in curve]


def test_scaling_shows_rates_over_ranks_and_the_ideal_from_the_first() -> None:
    one, other = stored().tests
    axes = axes_of(plots.scaling, [one, replace(other, p=4, q=2)])
    (marks,) = axes.collections
    assert marks.get_offsets().tolist() == [[2, one.gflops], [8, other.gflops]]
    (ideal,) = axes.get_lines()
    unit = one.gflops / 2
    assert list(ideal.get_ydata()) == pytest.approx([unit * ranks for ranks in ideal.get_xdata()])
    assert ideal.get_xdata()[0] < 2 and ideal.get_xdata()[1] > 8


def test_similar_rates_are_drawn_over_an_axis_from_0() -> None:
    one, other = stored().tests
    axes = axes_of(plots.scaling, [one, other])
    assert axes.get_yscale() == "linear" and axes.get_ylim()[0] == 0
    far = replace(other, gflops=100 * one.gflops)
    assert axes_of(plots.scaling, [one, far]).get_yscale() == "log"


def test_several_results_have_letters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    titles, seen = [], []
    monkeypatch.setattr(plots, "_save", lambda path, title, tests, plot: (titles.append(title), seen.append(tests)))
    plots.draw([stored(), stored()], tmp_path)
    assert [plots._number(test) for test in seen[0]] == ["A1", "A2", "B1", "B2"]
    assert titles[0].splitlines()[1:] == [f"{name}: golden, {stored().date}" for name in "AB"]


def test_bars_add_up_to_the_phases() -> None:
    phases = [test.phases for test in stored().tests]
    bars = plots._bars(phases)
    for index, each in enumerate(phases):
        seconds = {field.name: getattr(each, field.name) or 0.0 for field in fields(type(each))}
        apart = sum(seconds[part] for part in plots.PART_OF_TRAINING)
        expected = sum(value for name, value in seconds.items() if name != "start_up")
        assert sum(values[index] for values in bars.values()) == pytest.approx(expected - apart)


def test_impossible_plots_are_refused_in_a_line(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no test to draw"):
        plots.draw([replace(stored(), tests=())], tmp_path)
    (tmp_path / "file").touch()
    for arguments in ([tmp_path / "missing"], [GOLDEN, "--out", tmp_path / "file" / "folder"]):
        finished = command(*arguments)
        assert finished.returncode == 2
        assert finished.stderr.startswith("hpcai: ") and finished.stderr.count("\n") == 1


def test_without_matplotlib_the_refusal_names_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(InputError, match="pip install matplotlib"):
        plots.draw([stored()], tmp_path)
