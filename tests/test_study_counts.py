"""Tables of operation counts: made without results, with the digits of docs/PAPERS.md; differences by hand."""

import csv
from pathlib import Path

import pytest
from launch import ROOT
from small_run import GOLDEN
from test_papers import ROWS, counted
from test_study import WITHOUT_RESULTS, command

from hpcai.study.figures import figure
from hpcai.study.figures.aiperf_table3 import AIPerfTable3

CELLS = ("ours, {}", "published, {}", "relative difference, {}")


def table(name: str) -> dict[str, dict[str, float | None]]:
    """The rows by their first cell."""
    made = figure(name).draw([])
    return {str(row[0]): dict(zip(made.columns[1:], row[1:], strict=True)) for row in made.rows}  # type: ignore[arg-type]


@pytest.mark.parametrize("name", WITHOUT_RESULTS)
def test_a_table_is_made_without_results_and_refuses_them(name: str, tmp_path: Path) -> None:
    finished = command(name, "--out", tmp_path)
    assert finished.returncode == 0, finished.stderr
    assert {path.suffix for path in tmp_path.iterdir()} == {".csv", ".png", ".svg"}
    assert len([*csv.DictReader((tmp_path / f"{name}.csv").open())]) == len(table(name))
    refused = command(name, GOLDEN)
    assert refused.returncode == 2 and refused.stderr.count("\n") == 1
    assert f"this table is made without results, but {GOLDEN} is given; allowed: none" in refused.stderr


def test_other_figures_refuse_absence() -> None:
    finished = command("v3-fig5")
    assert finished.returncode == 2 and finished.stderr.count("\n") == 1
    assert "drawn from results, but none is given; allowed: result.json or its folder" in finished.stderr


def test_table_3_of_aiperf_has_the_digits_of_the_page() -> None:
    lines = [line for line in ROWS if (line.network, line.variant, line.rule) == ("resnet50", "v1", "aiperf")]
    found = table("aiperf-table3")
    assert {*found} == {line.layers for line in lines}
    for line in lines:
        row = found[line.layers]
        for place, direction in enumerate(("forward", "backward")):
            assert row[f"ours, {direction}"] == counted(line)[place]
            digits = line.published[place]
            assert row[f"published, {direction}"] == (float(digits) if digits else None)
    assert "whose sum is 2.31E10" in (ROOT / "docs" / "PAPERS.md").read_text() and AIPerfTable3.whole == 2.31e10


def test_differences_are_relative_to_the_published_digits() -> None:
    found = table("aiperf-table3")
    assert found["softmax"]["relative difference, forward"] == 12_999 / 2.10e4 - 1
    assert found["relu"]["relative difference, forward"] is None
    assert table("v3-table3")["total"]["relative difference, both"] == 24_610_397_184 / 23.0e9 - 1


def test_the_rules_side_by_side() -> None:
    found = table("aiperf-table7")
    assert found["model, v1.5"]["ours, both"] == 8_178_368_512 + 16_120_709_120
    assert found["aiperf, v1"]["published, both"] == 2.31e10
    assert found["model, v1"]["published, both"] is None
