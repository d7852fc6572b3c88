"""Plots of a result, drawn by matplotlib: `python -P -m hpcai.report.plots RESULT... [--out FOLDER]`.

learning.png shows how the first model of each ensemble learned, phases.png where its time went, scaling.png how the
rate grows with the ranks; of searches score.png the score over time, and tree.png which trial descends from which;
roofline.png, where kernels were measured, what bounds them all. matplotlib is an optional extra (`pip install
.[plots]`).
"""

import argparse
import sys
from collections.abc import Callable, Sequence
from itertools import cycle
from math import isfinite
from pathlib import Path
from string import ascii_uppercase
from typing import TYPE_CHECKING, Any

from hpcai.errors import HpcaiError, InputError
from hpcai.record.entry import Row
from hpcai.record.loading import load
from hpcai.record.phases import Phases
from hpcai.record.record import fields
from hpcai.record.result import Result
from hpcai.record.training import TrainingRow
from hpcai.report import rooflines
from hpcai.workloads import registry

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Run = tuple[str, Result]  # the name of a result in the plots, and the result
Shown = tuple[str, Row]  # the name of a result in the plots, and one of its tests
Draw = Callable[["Axes", Sequence[Any]], None]  # draws runs, or tests

WIDE = 8  # ratio of the largest to the smallest number from which an axis is logarithmic
PART_OF_TRAINING = ("data_wait", "exposed_communication")


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit code: 0, or 2 if a file is no result or matplotlib is missing."""
    parser = argparse.ArgumentParser(prog="python -P -m hpcai.report.plots", description="Draw plots of results.")
    parser.add_argument("result", nargs="+", type=Path, help="result.json, or the folder it is in")
    parser.add_argument("--out", type=Path, help="folder of the plots; default: that of the first result")
    options = parser.parse_args(arguments)
    files = [path / "result.json" if path.is_dir() else path for path in options.result]
    try:
        for path in draw([load(file) for file in files], options.out or files[0].parent):
            print(path)
    except HpcaiError as error:
        print(f"hpcai: {error}", file=sys.stderr)
        return error.exit_code
    return 0


def draw(results: Sequence[Result], folder: Path) -> list[Path]:
    """Draw all plots of these results into a folder; returns their paths.

    InputError without matplotlib, tests or folder.
    """
    runs = _named(results)
    tests = [(name if len(runs) > 1 else "", test) for name, result in runs for test in result.tests]
    roofs = rooflines.drawable([(name if len(runs) > 1 else "", result) for name, result in runs])
    if not tests and not roofs:
        raise InputError("there is no test to draw; allowed: results with at least one")
    told = "\n".join(f"{name}: {_run(result)}" for name, result in runs)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        made = [
            _save(folder / name, f"{title}\n{told}", shown, plot)
            for name, title, plot, shows in kinds()
            if (shown := [each for each in tests if shows(each[1])])
        ]
        if roofs:
            made.append(_save(folder / ROOFLINE, f"Roofline of a rank\n{told}", roofs, rooflines.plot))
        return made
    except ImportError as error:
        raise InputError(f"plots need matplotlib ({error}): pip install matplotlib") from None
    except OSError as error:
        raise InputError(f"cannot write plots to {folder.absolute()}: {error.strerror}") from None


def _run(result: Result) -> str:
    return f"{result.input.run['OUTPUT'].value}, {result.date}{'' if result.tests else ' (no training)'}"


def _named(results: Sequence[Result]) -> list[Run]:
    """Results named by letters: A, B, ... Z, AA, ..."""
    letters = ascii_uppercase
    names = [*letters, *(first + second for first in letters for second in letters)]
    if len(results) > len(names):
        raise InputError(f"{len(results)} results are too many for a plot; allowed: {len(names)}")
    return [*zip(names, results, strict=False)]


def _save(path: Path, title: str, what: Sequence[Any], plot: Draw) -> Path:
    made = figure(plot, what)
    made.axes[0].set_title(title, fontsize="medium")
    made.savefig(path, dpi=120)
    return path


def figure(plot: Draw, what: Sequence[Any], size: tuple[float, float] = (9, 5.5)) -> "Figure":
    """A figure in memory: what a plot function draws, with a legend; size in inches. ImportError without matplotlib."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    made = Figure(figsize=size, layout="constrained")
    FigureCanvasAgg(made)
    axes = made.add_subplot()
    plot(axes, what)
    axes.legend(fontsize="small", framealpha=0.8)
    return made


def _label(shown: Shown) -> str:
    test = shown[1]
    return f"{_number(shown)}: {_task(test)}, {test.tv} {test.p}x{test.q} NB {test.nb}"


def _number(shown: Shown) -> str:
    return f"{shown[0]}{shown[1].index}"


def _task(test: Row) -> str:
    if not registry.workload(test.workload).trains:
        return f"[{test.workload}]"
    return f"{test.settings['NETWORK']} on {test.raw.dataset.name}"


def _learning(axes: "Axes", tests: Sequence[Shown]) -> None:
    """Learning curves: quality of the first model over training and validation time; the target as a line."""
    _curves(axes, tests, "seconds")
    axes.set_xlabel("training and validation, s")


def by_epoch(axes: "Axes", tests: Sequence[Shown]) -> None:
    """Learning curves over the epochs."""
    from matplotlib.ticker import MaxNLocator

    _curves(axes, tests, "epoch")
    axes.set_xlabel("epochs")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))


def _curves(axes: "Axes", tests: Sequence[Shown], over: str) -> None:
    """Quality of the first model over a field of its validations."""
    for shown in tests:
        curve, samples = shown[1].raw.curve, shown[1].raw.dataset.validation_samples
        qualities = [entry.quality(samples) for entry in curve]
        axes.plot([getattr(entry, over) for entry in curve], qualities, marker="o", label=_label(shown))
    targets = {(test.scores.target, test.raw.dataset.name) for _, test in tests}
    for (target, dataset), style in zip(sorted(targets), cycle(("--", ":", "-.")), strict=False):
        axes.axhline(target, color="grey", linestyle=style, label=f"target {target:g}, {dataset}")
    axes.set_ylabel(f"{_kinds(tests)} of the first model")
    axes.set_ylim(*_range(tests))
    axes.grid(alpha=0.3)


def _kinds(tests: Sequence[Shown]) -> str:
    """Names of the tests' qualities."""
    return " or ".join(sorted({registry.quality_of(test.workload).name for _, test in tests}, reverse=True))


def _range(tests: Sequence[Shown]) -> tuple[float, float | None]:
    """Range of all qualities; open above for a quality without upper limit."""
    found = [registry.quality_of(test.workload) for _, test in tests]
    highest = max(quality.highest for quality in found)
    return min(quality.lowest for quality in found), highest if isfinite(highest) else None


def scaling(axes: "Axes", tests: Sequence[Shown]) -> None:
    """GFLOP/s over ranks, with parallel efficiency; a colour for tests that differ in the grid only; dashed: ideal."""
    families: dict[str, list[Shown]] = {}
    for shown in tests:
        grid = ("GROUPS", "DEGREE", "MAPPING", "SEED")
        same = {key: value for key, value in shown[1].settings.items() if key not in grid}
        families.setdefault(repr(same), []).append(shown)
    for family in families.values():
        points = sorted((test.p * test.q, test.gflops, _grid(test)) for _, test in family)
        first = family[0][1]
        name = f"{', '.join(map(_number, family))}: {_task(first)}, NB {first.nb}"
        marks = axes.scatter([point[0] for point in points], [point[1] for point in points], label=name)
        unit = first.gflops / (first.p * first.q)
        ends = [points[0][0] / 1.2, points[-1][0] * 1.2]
        axes.plot(ends, [unit * end for end in ends], color=marks.get_facecolor()[0], linestyle="--", alpha=0.6)
        for ranks, rate, grid_name in points:
            axes.annotate(grid_name, (ranks, rate), textcoords="offset points", xytext=(6, 4), fontsize="small")
    axes.set(xlabel="ranks P x Q (dashed: ideal, from the first test)", ylabel="GFLOP/s")
    axes.margins(0.15)
    _fit(axes.set_xscale, axes.xaxis, [test.p * test.q for _, test in tests], axes.set_xlim)
    _fit(axes.set_yscale, axes.yaxis, [test.gflops for _, test in tests], axes.set_ylim)
    axes.grid(alpha=0.3, which="both")


def _grid(test: Row) -> str:
    """The grid of a test, and its parallel efficiency if it has one."""
    efficiency = getattr(test.scores, "efficiency", None)
    return f"{test.p}x{test.q}" + (f", {100 * efficiency:.0f} %" if efficiency is not None else "")


def _fit(scale: Callable[..., Any], axis: Any, values: Sequence[float], limit: Callable[..., Any]) -> None:
    """Linear axis from 0, or a logarithmic one if the values span a large ratio."""
    if max(values) > WIDE * min(values) > 0:
        scale("log", base=2)
        axis.set_major_formatter("{x:g}")
    else:
        limit(0, 1.3 * max(values))


def _phases(axes: "Axes", tests: Sequence[Shown]) -> None:
    """Stacked seconds by phase; waiting is shown as part of training."""
    places = range(len(tests))
    heights = [0.0] * len(tests)
    for name, seconds in _bars([test.phases for _, test in tests if isinstance(test, TrainingRow)]).items():
        axes.bar(places, seconds, bottom=heights, label=name.replace("_", " "))
        heights = [height + more for height, more in zip(heights, seconds, strict=True)]
    axes.set(ylabel="s, slowest rank", xlabel="test")
    axes.set_xticks(list(places), [_number(shown) for shown in tests])


def _bars(phases: Sequence[Phases]) -> dict[str, list[float]]:
    """Seconds by phase of each test; `training` without the waiting that is part of it."""
    names = [field.name for field in fields(Phases) if field.name != "start_up"]
    bars = {name: [float(getattr(each, name) or 0.0) for each in phases] for name in names}
    for part in PART_OF_TRAINING:
        for index, seconds in enumerate(bars[part]):
            bars["training"][index] = max(0.0, bars["training"][index] - seconds)
    return {name: seconds for name, seconds in bars.items() if any(seconds)}


ROOFLINE = "roofline.png"
Plot = tuple[str, str, Draw, Callable[[Row], bool]]


def kinds() -> list[Plot]:
    """File name, title, plot function and test filter of each plot, including the workloads' own."""
    found: list[Plot] = [
        ("learning.png", "Learning curves", _learning, lambda test: isinstance(test, TrainingRow)),
        ("scaling.png", "Scaling", scaling, lambda test: True),
        ("phases.png", "Seconds by phase", _phases, lambda test: isinstance(test, TrainingRow)),
    ]
    for workload in registry.workloads():
        part = registry.optional_part(workload.name, "plots")
        found += part.PLOTS if part else []
    return found


if __name__ == "__main__":
    sys.exit(main())
