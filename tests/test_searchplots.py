"""Plots of a search: the score over time, and the tree of its trials."""

import json
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from synthetic_search import entry_of_search, searched, with_ensemble
from test_plots import axes_of, command

from hpcai.record.loading import result_of
from hpcai.report import plots
from hpcai.workloads.nas import plots as search_plots

Json = dict[str, Any]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("result", "names"),
    [
        (searched(), ["scaling.png", "score.png", "tree.png"]),
        (with_ensemble(), ["learning.png", "phases.png", "scaling.png", "score.png", "tree.png"]),
    ],
    ids=["alone", "ensembles"],
)
def test_command_draws_every_plot(result: Json, names: list[str], tmp_path: Path) -> None:
    (tmp_path / "result.json").write_text(json.dumps(result), "utf-8")
    finished = command(tmp_path, "--out", tmp_path / "made")
    assert finished.returncode == 0, finished.stderr
    assert sorted(path.name for path in (tmp_path / "made").iterdir()) == names
    for path in (tmp_path / "made").iterdir():
        assert path.read_bytes().startswith(b"\x89PNG") and path.stat().st_size > 10_000


def test_the_score_over_time_is_drawn_with_the_highest() -> None:
    test = entry_of_search()
    axes = axes_of(search_plots.score, [test])
    scores, (rising, rate, _, highest, _) = test.scores, axes.get_lines()
    assert list(rising.get_ydata()) == [point.regulated_score / 1e9 for point in scores.series]
    assert list(rate.get_ydata()) == [point.ops / 1e9 for point in scores.series]
    assert list(highest.get_xdata()) == [scores.regulated_seconds]
    (errors,) = [other for other in axes.figure.axes if other is not axes]
    assert list(errors.get_lines()[0].get_ydata()) == [point.error for point in scores.series]
    assert axes.get_ylabel().endswith("GOPS")


@pytest.mark.parametrize(("rate", "unit"), [(2e9, "G"), (3e14, "T"), (1.9e17, "P"), (1e20, "E"), (5.0, "")])
def test_the_unit_of_the_rate(rate: float, unit: str) -> None:
    assert search_plots._unit(rate)[1] == unit


def test_the_tree_connects_every_trial_with_its_parent() -> None:
    test = entry_of_search()
    places = search_plots._places(test.trials, 0.0)
    assert places[0][0] == 0 and all(places[trial.id][0] == trial.returned for trial in test.trials)
    leaves = {trial.id for trial in test.trials} - {trial.parent for trial in test.trials}
    assert sorted(places[leaf][1] for leaf in leaves) == [float(n) for n in range(len(leaves))]
    assert places[2][1] == (places[3][1] + places[6][1]) / 2
    axes = axes_of(search_plots.tree, [test])
    edges, best = axes.collections[:2]
    assert len(edges.get_segments()) == 9
    assert [segment[1].tolist() for segment in best.get_segments()] == [list(places[n]) for n in (7, 5, 3, 2)]


def test_failed_trials_are_marked_and_have_no_colour() -> None:
    axes = axes_of(search_plots.tree, [entry_of_search()])
    _, _, failed, sound = axes.collections
    assert len(failed.get_offsets()) == 2 and len(sound.get_offsets()) == 7
    assert sorted(sound.get_array().tolist()) == [0.15, 0.2, 0.35, 0.45, 0.45, 0.5, 0.6]


def test_a_trial_that_was_never_validated_has_no_colour() -> None:
    test = entry_of_search()
    cut = next(trial for trial in test.trials if trial.verdict == "time")
    trials = tuple(replace(trial, accuracy=0.0) if trial is cut else trial for trial in test.trials)
    axes = axes_of(search_plots.tree, [replace(test, trials=trials)])
    _, _, failed, hollow, sound = axes.collections
    assert [len(each.get_offsets()) for each in (failed, hollow, sound)] == [2, 1, 6]
    assert hollow.get_offsets()[0].tolist()[0] == cut.returned and min(sound.get_array()) > 0
    assert "ended before its first validation" in axes.get_legend_handles_labels()[1]


def test_many_trials_are_not_named_and_deep_trees_are_drawn() -> None:
    test = entry_of_search()
    row = test.trials[0]
    trials = tuple(replace(row, id=n, parent=n - 1 or None, returned=float(n)) for n in range(1, 3001))
    axes = axes_of(search_plots.tree, [replace(test, trials=trials)])
    assert not axes.texts and len(axes.collections[0].get_segments()) == 3000
    assert len(axes_of(search_plots.tree, [test]).texts) == 9


def test_several_searches_are_drawn_one_above_the_other() -> None:
    axes = axes_of(search_plots.tree, [entry_of_search()] * 2, "AB")
    heights = axes.collections[-1].get_offsets()[:, 1].tolist()
    assert max(heights[:7]) < min(heights[7:])
    assert [text.get_text() for text in axes.texts if text.get_text() in ("A1", "B1")] == ["A1", "B1"]


def test_the_scaling_plot_has_all_rows() -> None:
    assert plots.kinds()[1][0] == "scaling.png"
    axes = axes_of(plots.scaling, result_of(with_ensemble()).tests)
    assert sum(len(marks.get_offsets()) for marks in axes.collections) == 3
