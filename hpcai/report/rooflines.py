"""Roofline plot: measured ceilings of a rank, kernels below them, and tests."""

from collections.abc import Sequence
from itertools import cycle
from math import exp, log
from typing import TYPE_CHECKING

from hpcai.kernels.providers import CUSTOM, VENDOR
from hpcai.record.result import Result
from hpcai.record.training import TrainingRow
from hpcai.workloads.kernels.record import KernelCeilings, KernelsTable

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis

Run = tuple[str, Result]  # the name of a result in the plot, and the result
Point = tuple[float, float]  # FLOP per byte, GFLOP/s

COLOURS = ("tab:blue", "tab:orange", "tab:green", "tab:red", "tab:purple", "tab:brown")
MARKERS = {CUSTOM: "o", VENDOR: "^"}
OTHERS = "svDP"  # markers of additional providers, in their order
LEVELS = {"fma_peak": ("FMA peak", "-"), "gemm": ("GEMM", "--"), "convolution": ("convolution", ":")}
WIDE = 2000  # ratio of an axis's ends above which it has fewer tick labels
ROOM = 2.0  # margin between the outermost points and the frame, a factor
GAP = 0.035  # distance between labels, as a share of the height
NEAR = 0.2  # difference of log10(x) above which names do not overlap


def drawable(runs: Sequence[Run]) -> list[Run]:
    """The runs that measured kernels."""
    return [run for run in runs if _table(run[1]) is not None]


def plot(axes: "Axes", runs: Sequence[Run]) -> None:
    """Draw rate over FLOP per byte of memory, both axes logarithmic, one colour a run."""
    axes.set(xscale="log", yscale="log", xlabel="FLOP per byte of memory", ylabel="GFLOP/s of a rank")
    _frame(axes, [point for _, result in runs for point in _all_points(result)])
    levels: list[tuple[float, str, str]] = []
    tests: list[tuple[Point, str]] = []
    for (name, result), colour in zip(runs, cycle(COLOURS), strict=False):
        levels += _ceilings(axes, name, _measured(result), colour)
        for provider, marker in _markers(result).items():
            _scatter(axes, _kernels(result, provider), f"{name} kernels, {provider}".strip(), colour, marker)
        tests += _tests(axes, name, result, colour)
    _ceiling_labels(axes, levels)
    _named(axes, tests)
    axes.grid(alpha=0.3, which="both")


def _markers(result: Result) -> dict[str, str]:
    """The marker of each provider of a run."""
    others = [row.provider for row in result.kernels if row.provider not in MARKERS]
    return MARKERS | dict(zip(dict.fromkeys(others), cycle(OTHERS), strict=False))


def _table(result: Result) -> KernelsTable | None:
    """The last table of kernels."""
    return next((table for table in reversed(result.tables) if isinstance(table, KernelsTable)), None)


def _measured(result: Result) -> KernelCeilings:
    """The ceilings of the last table of a result that has one."""
    table = _table(result)
    assert table is not None, "only results with a table are drawn"
    return table.ceilings


def _kernels(result: Result, provider: str) -> list[Point]:
    """The products in fp32 of the last table."""
    table = _table(result)
    rows = [row for row in result.kernels if table and row.test == table.index and row.dtype == "fp32"]
    products = [row for row in rows if row.of != "ceiling" and row.provider == provider]
    return [(row.intensity, row.gflops) for row in products if row.intensity]


def _placed(result: Result) -> list[TrainingRow]:
    return [test for test in result.tests if isinstance(test, TrainingRow)]


def _point(test: TrainingRow) -> Point:
    found = test.scores.roofline
    return found.intensity.memory, found.rate / 1e9


def _all_points(result: Result) -> list[Point]:
    """All points that must be inside the frame: kernels, tests, and ridges of the ceilings."""
    ceilings = _measured(result)
    points = [point for provider in _markers(result) for point in _kernels(result, provider)]
    points += [_point(test) for test in _placed(result)]
    middle = points[0][0] if points else 1.0
    points += [(middle, level / 1e9) for name in LEVELS if (level := getattr(ceilings, name))]
    if ceilings.fma_peak and ceilings.triad:
        points.append((ceilings.fma_peak / ceilings.triad, ceilings.fma_peak / 1e9))
    return points


def _frame(axes: "Axes", points: Sequence[Point]) -> None:
    xs, ys = zip(*points, strict=True)
    axes.set(xlim=(min(xs) / ROOM, max(xs) * ROOM), ylim=(min(ys) / ROOM, max(ys) * ROOM))
    for axis, ends in ((axes.xaxis, axes.get_xlim()), (axes.yaxis, axes.get_ylim())):
        _ticks(axis, ends[1] / ends[0])


def _ticks(axis: "Axis", ratio: float) -> None:
    """Tick labels as plain numbers: 1, 2, 5 of each decade, or only 1 if there are many decades."""
    from matplotlib.ticker import LogLocator, NullFormatter

    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if ratio < WIDE else (1.0,)))
    axis.set_major_formatter("{x:g}")
    axis.set_minor_formatter(NullFormatter())


def _ceilings(axes: "Axes", name: str, ceilings: KernelCeilings, colour: str) -> list[tuple[float, str, str]]:
    """Draw the memory slope and the compute ceilings; returns the labels of the ceilings."""
    left, right = axes.get_xlim()
    labels = []
    for key, (words, style) in LEVELS.items():
        if rate := getattr(ceilings, key):
            level = rate / 1e9
            begin = _ridge(ceilings, key, left)
            axes.plot([begin, right], [level, level], color=colour, linestyle=style, linewidth=1.2)
            labels.append((level, f"{name} {words} {level:.4g}".strip(), colour))
    if ceilings.triad:
        end = _ridge(ceilings, "fma_peak", right) if ceilings.fma_peak else right
        rate = ceilings.triad / 1e9
        words = f"{name} triad {rate:.4g} GB/s".strip()
        axes.plot([left, end], [rate * left, rate * end], color=colour, linewidth=1.2, label=words)
    return labels


def _ridge(ceilings: KernelCeilings, key: str, otherwise: float) -> float:
    """Ridge point: where a ceiling meets the memory slope."""
    return float(getattr(ceilings, key) / ceilings.triad) if ceilings.triad else otherwise


def _scatter(axes: "Axes", points: Sequence[Point], label: str, colour: str, marker: str) -> None:
    if points:
        xs, ys = zip(*points, strict=True)
        face = colour if marker == MARKERS[CUSTOM] else "none"
        axes.scatter(xs, ys, s=16, marker=marker, facecolors=face, edgecolors=colour, alpha=0.6, label=label)


def _tests(axes: "Axes", name: str, result: Result, colour: str) -> list[tuple[Point, str]]:
    """Draw the tests, and above each a bar at its attainable rate; returns their points and names."""
    tests = _placed(result)
    points = [_point(test) for test in tests]
    for (x, _), test in zip(points, tests, strict=True):
        if reach := test.scores.roofline.ceilings.attainable:
            axes.scatter([x], [reach / 1e9], color=colour, marker="_", s=250, linewidths=2.5, zorder=3)
    if points:
        xs, ys = zip(*points, strict=True)
        label = f"{name} training (bar: attainable)".strip()
        axes.scatter(xs, ys, s=70, marker="*", color=colour, edgecolors="black", linewidths=0.6, zorder=3, label=label)
    return [(point, f"{name}{test.index}") for point, test in zip(points, tests, strict=True)]


def _named(axes: "Axes", labels: Sequence[tuple[Point, str]]) -> None:
    """Draw names to the right of their points, moved apart within a column, with a line to the point."""
    columns: dict[float, list[tuple[Point, str]]] = {}
    for (x, y), words in labels:
        near = next((other for other in columns if abs(log(other / x)) < NEAR), x)
        columns.setdefault(near, []).append(((x, y), words))
    for column in columns.values():
        places = _spread_labels(axes, [y for (_, y), _ in column])
        right = max(x for (x, _), _ in column) * (1 + NEAR)
        for (point, words), place in zip(column, places, strict=True):
            line = {"arrowstyle": "-", "linewidth": 0.5}
            axes.annotate(words, point, xytext=(right, place), fontsize="small", va="center", arrowprops=line)


def _ceiling_labels(axes: "Axes", labels: Sequence[tuple[float, str, str]]) -> None:
    """Draw the names of ceilings to the right of the frame."""
    places = _spread_labels(axes, [level for level, _, _ in labels])
    for (_, words, colour), place in zip(labels, places, strict=True):
        axes.annotate(
            words, (1.01, place), xycoords=("axes fraction", "data"), color=colour, fontsize="small", va="center"
        )


def _spread_labels(axes: "Axes", values: Sequence[float]) -> list[float]:
    """Positions on the logarithmic y axis for labels at these values, in their order, moved up where they overlap."""
    low, high = axes.get_ylim()
    gap, last = GAP * log(high / low), -float("inf")
    places = [0.0] * len(values)
    for index in sorted(range(len(values)), key=lambda index: values[index]):
        last = max(log(values[index] / low), last + gap)
        places[index] = low * exp(last)
    return places
