"""Pictures of a result, drawn by matplotlib: `python -m hpcai.report.plots RESULT... [--out FOLDER]`.

learning.png shows how the first model of each ensemble learned, phases.png where its time went, scaling.png how the
rate grows with the ranks; of searches score.png the score over time, and tree.png which trial descends from which;
roofline.png, where kernels were measured, what bounds them all. matplotlib is an optional extra (`pip install
.[plots]`).
"""

import argparse
import sys
from collections.abc import Callable, Sequence
from itertools import cycle
from pathlib import Path
from string import ascii_uppercase
from typing import TYPE_CHECKING, Any

from hpcai.errors import HpcaiError, InputError
from hpcai.formulas import score
from hpcai.report import rooflines, searchplots, verify
from hpcai.result.quality import NAMES

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Json = dict[str, Any]

WIDE = 8  # ratio of numbers from which on an axis is logarithmic
PART_OF_TRAINING = ("data wait", "exposed communication")


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit code: 0, or 2 if a file is no result or matplotlib is missing."""
    parser = argparse.ArgumentParser(prog="python -m hpcai.report.plots", description="Draw pictures of results.")
    parser.add_argument("result", nargs="+", type=Path, help="result.json, or the folder it is in")
    parser.add_argument("--out", type=Path, help="folder of the pictures; the first result's own unless given")
    options = parser.parse_args(arguments)
    files = [path / "result.json" if path.is_dir() else path for path in options.result]
    try:
        for path in draw([verify.read(file) for file in files], options.out or files[0].parent):
            print(path)
    except HpcaiError as error:
        print(f"hpcai: {error}", file=sys.stderr)
        return error.exit_code
    return 0


def draw(results: Sequence[Json], folder: Path) -> list[Path]:
    """Draw all pictures of these results into a folder; their paths. InputError without matplotlib, tests or place."""
    runs = _named(results)
    tests = [{**test, "run": name if len(runs) > 1 else ""} for name, result in runs for test in result["tests"]]
    roofs = rooflines.drawable([(name if len(runs) > 1 else "", result) for name, result in runs])
    if not tests and not roofs:
        raise InputError("there is no test to draw; allowed: results with at least one")
    told = "\n".join(f"{name}: {_run(result)}" for name, result in runs)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        made = [
            _picture(folder / name, f"{title}\n{told}", shown, plot)
            for name, title, plot, workloads in PICTURES
            if (shown := [test for test in tests if test["workload"] in workloads])
        ]
        if roofs:
            made.append(_picture(folder / ROOFLINE, f"Roofline of a rank\n{told}", roofs, rooflines.plot))
        return made
    except ImportError as error:
        raise InputError(f"pictures need matplotlib ({error}): pip install matplotlib") from None
    except OSError as error:
        raise InputError(f"cannot write pictures to {folder.absolute()}: {error.strerror}") from None


def _run(result: Json) -> str:
    name = f"{result['input']['run']['OUTPUT']['value']}, {result['date']}"
    return name if result["tests"] else f"{name} (no training)"


def _named(results: Sequence[Json]) -> list[tuple[str, Json]]:
    """Results by a letter, or by two where there are many: A, B, ... Z, AA, ..."""
    letters = ascii_uppercase
    names = [*letters, *(first + second for first in letters for second in letters)]
    if len(results) > len(names):
        raise InputError(f"{len(results)} results are too many for a picture; allowed: {len(names)}")
    return [*zip(names, results, strict=False)]


def _picture(path: Path, title: str, what: Sequence[Any], plot: Callable[["Axes", Sequence[Any]], None]) -> Path:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 5.5), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    plot(axes, what)
    axes.set_title(title, fontsize="medium")
    axes.legend(fontsize="small", framealpha=0.8)
    figure.savefig(path, dpi=120)
    return path


def _label(test: Json) -> str:
    return f"{_number(test)}: {_task(test)}, {test['tv']} {test['p']}x{test['q']} NB {test['nb']}"


def _number(test: Json) -> str:
    return f"{test.get('run', '')}{test['index']}"


def _task(test: Json) -> str:
    return f"{test['settings']['NETWORK']} on {test['raw']['dataset']['name']}"


def _learning(axes: "Axes", tests: Sequence[Json]) -> None:
    """Top-1 or mAP of the first model over training and validation time; the target as a line."""
    for test in tests:
        curve, samples = test["raw"]["curve"], test["raw"]["dataset"]["validation_samples"]
        seconds = [entry["seconds"] for entry in curve]
        axes.plot(seconds, [score.quality(entry, samples) for entry in curve], marker="o", label=_label(test))
    targets = {(test["scores"]["target"], test["raw"]["dataset"]["name"]) for test in tests}
    for (target, dataset), style in zip(sorted(targets), cycle(("--", ":", "-.")), strict=False):
        axes.axhline(target, color="grey", linestyle=style, label=f"target {target:g}, {dataset}")
    axes.set(xlabel="training and validation, s", ylabel=f"{_kinds(tests)} of the first model", ylim=(0, 1))
    axes.grid(alpha=0.3)


def _kinds(tests: Sequence[Json]) -> str:
    """What the qualities of tests are."""
    return " or ".join(sorted({NAMES[test["workload"]] for test in tests}, reverse=True))


def _scaling(axes: "Axes", tests: Sequence[Json]) -> None:
    """GFLOP/s over ranks, in one colour what differs in the grid alone; ideal scaling from its first test dashed."""
    families: dict[str, list[Json]] = {}
    for test in tests:
        grid = ("GROUPS", "DEGREE", "MAPPING", "SEED")
        same = {key: value for key, value in test["settings"].items() if key not in grid}
        families.setdefault(repr(same), []).append(test)
    for family in families.values():
        points = sorted((test["p"] * test["q"], test["gflops"], f"{test['p']}x{test['q']}") for test in family)
        first = family[0]
        name = f"{', '.join(map(_number, family))}: {_task(first)}, NB {first['nb']}"
        marks = axes.scatter([point[0] for point in points], [point[1] for point in points], label=name)
        unit = first["gflops"] / (first["p"] * first["q"])
        ends = [points[0][0] / 1.2, points[-1][0] * 1.2]
        axes.plot(ends, [unit * end for end in ends], color=marks.get_facecolor()[0], linestyle="--", alpha=0.6)
        for ranks, rate, grid_name in points:
            axes.annotate(grid_name, (ranks, rate), textcoords="offset points", xytext=(6, 4), fontsize="small")
    axes.set(xlabel="ranks P x Q (dashed: ideal, from the first test)", ylabel="GFLOP/s")
    axes.margins(0.15)
    _fit(axes.set_xscale, axes.xaxis, [test["p"] * test["q"] for test in tests], axes.set_xlim)
    _fit(axes.set_yscale, axes.yaxis, [test["gflops"] for test in tests], axes.set_ylim)
    axes.grid(alpha=0.3, which="both")


def _fit(scale: Callable[..., Any], axis: Any, values: Sequence[float], limit: Callable[..., Any]) -> None:
    """An axis from 0, or a logarithmic one where numbers lie so far apart that the small ones would not be seen."""
    if max(values) > WIDE * min(values) > 0:
        scale("log", base=2)
        axis.set_major_formatter("{x:g}")
    else:
        limit(0, 1.3 * max(values))


def _phases(axes: "Axes", tests: Sequence[Json]) -> None:
    """Seconds by phase, stacked; waiting is shown as part of training."""
    places = range(len(tests))
    heights = [0.0] * len(tests)
    for name, seconds in _bars(tests).items():
        axes.bar(places, seconds, bottom=heights, label=name)
        heights = [height + more for height, more in zip(heights, seconds, strict=True)]
    axes.set(ylabel="s, slowest rank", xlabel="test")
    axes.set_xticks(list(places), [_number(test) for test in tests])


def _bars(tests: Sequence[Json]) -> dict[str, list[float]]:
    """Seconds of each test by phase; `training` is what remains of it without the waiting that is part of it."""
    names = list(dict.fromkeys(name for test in tests for name in test["phases"] if name != "start-up"))
    bars = {name: [float(test["phases"].get(name, 0.0)) for test in tests] for name in names}
    for part in PART_OF_TRAINING:
        for index, seconds in enumerate(bars.get(part, [])):
            bars["training"][index] = max(0.0, bars["training"][index] - seconds)
    return bars


ROOFLINE = "roofline.png"
TRAINED, SEARCHED = ("ensemble", "weather"), ("nas",)
PICTURES: tuple[tuple[str, str, Callable[["Axes", Sequence[Json]], None], Sequence[str]], ...] = (
    ("learning.png", "Learning curves", _learning, TRAINED),
    ("scaling.png", "Scaling", _scaling, (*TRAINED, *SEARCHED)),
    ("phases.png", "Where the time went", _phases, TRAINED),
    ("score.png", "Score of the search over time", searchplots.score, SEARCHED),
    ("tree.png", "Networks that were tried, and what they descend from", searchplots.tree, SEARCHED),
)

if __name__ == "__main__":
    sys.exit(main())
