"""The figure of measured, projected and published efficiencies."""

import csv
from pathlib import Path

import pytest
from made_up_trainings import measured
from small_run import GOLDEN
from test_study import command

from hpcai.study.figures.projection import Projection, drawn


@pytest.mark.slow
def test_the_figure_is_printed_and_written(tmp_path: Path) -> None:
    finished = command("projection", GOLDEN, "--out", tmp_path)
    assert finished.returncode == 0, finished.stderr
    assert {path.name for path in tmp_path.iterdir()} == {f"projection.{kind}" for kind in ("csv", "png", "svg")}
    rows = [*csv.DictReader((tmp_path / "projection.csv").open())]
    assert [row["ranks"] for row in rows if row["measured"]] == ["2", "2"]
    assert [(row["P"], row["Q"], row["measured"]) for row in rows][-1] == ("16", "1", "")
    assert "PROJECTED" in (tmp_path / "projection.svg").read_text() or rows


def test_projected_points_follow_the_measured_ones() -> None:
    own, ours = drawn([measured()]).curves
    assert [x for x, _ in own.points] == [1.0, 2.0, 3.0, 4.0]
    assert [x for x, _ in ours.points] == [1.0, 2.0, 3.0, 4.0, 8.0, 16.0, 32.0]
    assert dict(ours.points)[4.0] == pytest.approx(dict(own.points)[4.0], rel=1e-3)
    assert all(low <= y <= high for (_, y), (low, high) in zip(ours.points, ours.band, strict=True))


def test_the_published_panel_has_both_curves() -> None:
    published = Projection.published
    assert published and [curve.label for curve in published.curves] == ["published", "PROJECTED, machine v2-v100"]
    digits, ours = published.curves
    assert digits.points == ((16, 0.91), (32, 0.85), (64, 0.71))
    assert max(abs(one - other) for (_, one), (_, other) in zip(digits.points, ours.points, strict=True)) <= 0.05


def test_without_results_it_is_refused() -> None:
    finished = command("projection")
    assert finished.returncode == 2 and "drawn from results, but none is given" in finished.stderr
