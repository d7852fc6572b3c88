"""Plots of a search: score over time, and tree of trials."""

from collections.abc import Sequence
from itertools import cycle
from typing import TYPE_CHECKING, Any

from hpcai.record.entry import Row
from hpcai.record.trial import FAILED
from hpcai.workloads.nas.record import SearchRow, TrialRow

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Shown = tuple[str, SearchRow]  # the name of a result in the plots, and one of its searches
Place = tuple[float, float]

COLOURS = ("tab:blue", "tab:orange", "tab:green", "tab:red", "tab:purple", "tab:brown")
UNITS = ((1e18, "E"), (1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"))
FAILURE, UNVALIDATED = "failed", "ended before its first validation"
WITHOUT_ACCURACY: dict[str, Any] = {
    FAILURE: {"marker": "x", "c": "tab:red"},
    UNVALIDATED: {"marker": "o", "facecolors": "white", "edgecolors": "gray"},
}
MOST_NAMES = 60  # trials labelled with their number
INITIAL = 0  # the initial network: trials are numbered from 1


def score(axes: "Axes", tests: Sequence[Shown]) -> None:
    """Regulated score, OPS and least error so far over time; a marker at the highest score that counts."""
    unit, prefix = _unit(max(point.ops for _, test in tests for point in test.scores.series))
    errors = axes.twinx()
    for (run, test), colour in zip(tests, cycle(COLOURS), strict=False):
        scores, name = test.scores, f"{run}{test.index}"
        points = scores.series
        seconds = [point.seconds for point in points]
        axes.plot(seconds, [point.regulated_score / unit for point in points], colour, label=f"{name}: score")
        axes.plot(seconds, [point.ops / unit for point in points], colour, linestyle="--", label=f"{name}: OPS")
        errors.plot(seconds, [point.error for point in points], colour, linestyle=":")
        axes.plot([], [], colour, linestyle=":", label=f"{name}: error of the best (right)")
        axes.plot(scores.regulated_seconds, scores.regulated_score / unit, "o", color=colour)
        axes.axvline(scores.least_seconds, color=colour, linewidth=0.8, alpha=0.5)
    axes.set(xlabel="s since the search began (the score counts from the thin line on)", xlim=(0, None), ylim=(0, None))
    axes.set_ylabel(f"OPS and regulated score, {prefix}OPS")
    errors.set(ylabel="1 - best accuracy so far", ylim=(0, 1))
    axes.grid(alpha=0.3)


def _unit(largest: float) -> tuple[float, str]:
    return next((unit for unit in UNITS if largest >= unit[0]), (1.0, ""))


def tree(axes: "Axes", tests: Sequence[Shown]) -> None:
    """Trials at the time when they returned, joined to their parents; colours show accuracies."""
    bottom, all_places, accuracies = 0.0, list[Place](), list[float]()
    for run, test in tests:
        places = _places(test.trials, bottom)
        bottom = max(height for _, height in places.values()) + 2
        _edges(axes, test.trials, places)
        if sum(len(each.trials) for _, each in tests) <= MOST_NAMES:
            _names(axes, test.trials, places)
        if len(tests) > 1:
            name = f"{run}{test.index}"
            axes.annotate(name, places[INITIAL], (-18, 0), textcoords="offset points", va="center")
        _marks(axes, test.trials, places)
        validated = [trial for trial in test.trials if not _kind(trial)]
        all_places += [places[trial.id] for trial in validated]
        accuracies += [trial.accuracy for trial in validated]
    if all_places:
        x, y = zip(*all_places, strict=True)
        dots = axes.scatter(x, y, c=accuracies, cmap="viridis", s=_size(len(all_places)), zorder=3)
        axes.figure.colorbar(dots, ax=axes, label="accuracy")
    axes.plot([], [], color="black", linewidth=2, label="ancestry of the best trial")
    axes.set(xlabel="s since the search began, when a trial returned (square: the initial network)", yticks=[])
    axes.margins(x=0.06, y=0.1)


def _size(count: int) -> float:
    return 90.0 if count <= MOST_NAMES else 18.0


def _places(trials: Sequence[TrialRow], bottom: float) -> dict[int, Place]:
    """Time and height of each trial and of the initial network: a parent is at the mean height of its children."""
    children: dict[int, list[int]] = {INITIAL: [], **{trial.id: [] for trial in trials}}
    for trial in trials:
        children[trial.parent or INITIAL].append(trial.id)
    order, waiting = list[int](), [INITIAL]
    while waiting:
        order.append(waiting.pop())
        waiting += reversed(children[order[-1]])
    heights: dict[int, float] = {}
    for leaf in (number for number in order if not children[number]):
        heights[leaf] = bottom + len(heights)
    for number in reversed(order):
        if children[number]:
            heights[number] = sum(heights[child] for child in children[number]) / len(children[number])
    times = {INITIAL: 0.0} | {trial.id: trial.returned for trial in trials}
    return {number: (times[number], heights[number]) for number in order}


def _edges(axes: "Axes", trials: Sequence[TrialRow], places: dict[int, Place]) -> None:
    from matplotlib.collections import LineCollection

    def lines(some: Sequence[TrialRow]) -> list[list[Place]]:
        return [[places[trial.parent or INITIAL], places[trial.id]] for trial in some]

    best = _best_ancestry(trials)
    axes.add_collection(LineCollection(lines(trials), colors="silver", linewidths=1, zorder=1))
    axes.add_collection(LineCollection(lines(best), colors="black", linewidths=2, zorder=2))
    axes.plot(*places[INITIAL], "s", color="black", zorder=3)


def _marks(axes: "Axes", trials: Sequence[TrialRow], places: dict[int, Place]) -> None:
    """Trials without an accuracy: failed, or cut by the end of the search before a validation."""
    for label, look in WITHOUT_ACCURACY.items():
        chosen = [places[trial.id] for trial in trials if _kind(trial) == label]
        if chosen:
            in_legend = label in axes.get_legend_handles_labels()[1]
            x, y = zip(*chosen, strict=True)
            axes.scatter(x, y, s=_size(len(trials)) / 2, zorder=3, label=None if in_legend else label, **look)


def _kind(trial: TrialRow) -> str:
    """The label of a trial without an accuracy; empty for one that is drawn in the colour of its accuracy."""
    if trial.verdict in FAILED:
        return FAILURE
    return "" if trial.accuracy else UNVALIDATED


def _best_ancestry(trials: Sequence[TrialRow]) -> list[TrialRow]:
    """The trial of the highest accuracy, then its parent, and so on."""
    known = {trial.id: trial for trial in trials}
    found, each = list[TrialRow](), max(trials, key=lambda trial: float(trial.accuracy), default=None)
    while each is not None:
        found.append(each)
        each = known.get(each.parent or INITIAL)
    return found


def _names(axes: "Axes", trials: Sequence[TrialRow], places: dict[int, Place]) -> None:
    """Number and operation of each trial, on the side away from its parent."""
    below: dict[int, bool] = {INITIAL: False}
    for trial in sorted(trials, key=lambda trial: float(trial.returned)):
        below[trial.id] = not below.get(trial.parent or INITIAL, False)
        offset = (0, -15 if below[trial.id] else 8)
        name = f"{trial.id} {trial.operation}"
        axes.annotate(name, places[trial.id], offset, textcoords="offset points", ha="center", fontsize="x-small")


def _is_search(test: Row) -> bool:
    return isinstance(test, SearchRow)


PLOTS = [
    ("score.png", "Score of the search over time", score, _is_search),
    ("tree.png", "Networks of the trials, and from which trial each descends", tree, _is_search),
]
