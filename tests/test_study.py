"""Figures of the papers from results: numbers by hand, pictures, and what is refused."""

import csv
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from launch import ROOT
from msgspec.structs import replace
from small_run import GOLDEN, golden
from synthetic_search import searched

from hpcai.errors import InputError
from hpcai.inputfile import parse
from hpcai.record.entry import Row
from hpcai.record.loading import result_of
from hpcai.study import reading
from hpcai.study.__main__ import lines
from hpcai.study.figure import Curve, Drawing
from hpcai.study.figures import figure, names

OF_GRIDS = ("v3-fig5", "v3-fig7", "v3-fig9", "v2-fig1", "v2-fig4", "v2-fig5", "v3-fig8", "v2-fig2", "v3-fig6")
WITHOUT_RESULTS = ("aiperf-table3", "aiperf-table7", "v3-table3")  # tests/test_study_counts.py
OF_SEARCHES = ("v3-fig2", "aiperf-fig4", "aiperf-fig5")
INPUTS = sorted((ROOT / "inputs" / "figures").glob("*.dat"))


def command(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    program = [sys.executable, "-m", "hpcai.study", *map(str, arguments)]
    return subprocess.run(program, cwd=ROOT, capture_output=True, text=True, check=False)


def trainings() -> list[Row]:
    """The stored tests: two models of one rank, and one model of two ranks."""
    return list(result_of(golden()).tests)


def table(name: str, tests: list[Row]) -> list[dict[str, Any]]:
    made = figure(name).draw(tests)
    return [dict(zip(made.columns, row, strict=True)) for row in made.rows]


def test_every_figure_is_tested_here() -> None:
    others = ("v2-table1", "projection")  # tests/test_projection_figure.py
    assert {*names()} == {*OF_GRIDS, *OF_SEARCHES, *WITHOUT_RESULTS, *others}


def test_every_input_belongs_to_a_figure_and_is_legal() -> None:
    assert {path.stem for path in INPUTS} <= {*names()} and len(INPUTS) == 10
    for path in INPUTS:
        problem = parse(path.read_bytes(), [], 2, lambda spec: None, path.name)
        assert str(problem.run["OUTPUT"]) == path.stem and problem.cases(2, 0)


def test_a_run_that_is_given_twice_counts_once(tmp_path: Path) -> None:
    shutil.copy(GOLDEN / "result.json", tmp_path / "result.json")
    once, _ = reading.read([GOLDEN], figure("v3-fig5"))
    twice, _ = reading.read([GOLDEN, GOLDEN / "result.json", tmp_path], figure("v3-fig5"))
    assert twice == once


def test_a_figure_is_printed_and_written(tmp_path: Path) -> None:
    finished = command("v3-fig5", GOLDEN, "--out", tmp_path)
    assert finished.returncode == 0, finished.stderr
    assert {path.name for path in tmp_path.iterdir()} == {"v3-fig5.csv", "v3-fig5.png", "v3-fig5.svg"}
    rows = list(csv.DictReader((tmp_path / "v3-fig5.csv").open()))
    assert [(row["P"], row["Q"], float(row["GFLOP/s"])) for row in rows] == [
        (str(test.p), str(test.q), test.scores.flops / 1e9) for test in sorted(trainings(), key=lambda test: test.p)
    ]
    assert (tmp_path / "v3-fig5.png").read_bytes().startswith(b"\x89PNG")
    assert "</svg>" in (tmp_path / "v3-fig5.svg").read_text()
    assert "parallel efficiency" in finished.stdout


@pytest.mark.parametrize("name", OF_GRIDS)
def test_figures_of_trainings_are_drawn(name: str, tmp_path: Path) -> None:
    from hpcai.study import drawing

    made = figure(name).draw(trainings())
    assert made.rows and (made.bars or any(curve.points for curve in made.curves))
    assert all(path.stat().st_size > 5000 for path in drawing.save(tmp_path, name, figure(name), made))
    assert len({len(line) for line in lines(made)}) == 1


@pytest.mark.parametrize("name", OF_SEARCHES)
def test_figures_of_searches_are_drawn(name: str) -> None:
    telemetry = trainings()[0].telemetry
    tests = [replace(test, telemetry=telemetry) for test in result_of(searched()).tests]
    assert all(figure(name).takes(test) for test in tests)
    assert not any(figure(name).takes(test) for test in trainings())
    assert figure(name).draw(tests).rows


def test_a_test_without_telemetry_has_no_curve_over_time() -> None:
    assert not figure("v3-fig6").takes(replace(trainings()[0], telemetry=None))
    assert not figure("aiperf-fig5").takes(result_of(searched()).tests[0])


def test_efficiency_is_relative_to_the_test_with_the_fewest_ranks() -> None:
    first = trainings()[0]
    alone = replace(first, p=1, q=1, scores=replace(first.scores, flops=4e10))
    four = replace(first, p=4, q=1, scores=replace(first.scores, flops=1.2e11))
    assert [row["parallel efficiency"] for row in table("v3-fig5", [four, alone])] == [1.0, 0.75]
    linear = figure("v3-fig5").draw([four, alone]).curves[-1]
    assert (linear.label, linear.points) == ("linear", ((1, 40.0), (4, 160.0)))


def test_language_models_are_drawn_like_images_but_not_with_them(tmp_path: Path) -> None:
    """Two models of a rank, and one of two ranks: as many ranks, so that the efficiency is that of the rates."""
    one, two = sorted(result_of(json.loads((GOLDEN / "language/result.json").read_text())).tests, key=lambda e: e.p)
    rows = table("v3-fig5", [two, one])
    assert [(row["P"], row["Q"], row["quality, bpb"]) for row in rows] == [
        (test.p, test.q, test.scores.quality) for test in (one, two)
    ]
    efficiency = two.scores.flops / one.scores.flops
    assert [row["parallel efficiency"] for row in rows] == [1.0, pytest.approx(efficiency)]
    made = figure("v3-fig5").draw([one, two])
    assert [curve.label for curve in made.curves[:2]] == ["FLOPS, Q = 1", "FLOPS, Q = 2"]
    assert made.curves[0].points == ((2, two.scores.flops / 1e9),)
    finished = command("v3-fig5", GOLDEN, GOLDEN / "language", "--out", tmp_path)
    assert finished.returncode == 2 and "workload is ensemble and language" in finished.stderr


def test_differences_are_relative_to_the_first_test_of_the_same_grid() -> None:
    first = trainings()[1]
    half = {**first.settings, "WIRE": "fp16"}
    faster = replace(first, settings=half, scores=replace(first.scores, flops=2 * first.scores.flops, quality=0.5))
    row = table("v2-fig4", [first, faster])[1]
    assert (row["WIRE"], row["speed-up"]) == ("fp16", 2.0)
    assert row["quality difference"] == 0.5 - first.scores.quality
    published = figure("v2-fig4").published
    assert published and published.curves[0].points == ((0, 345.0), (1, 414.0))
    assert "414 / 345 = 1.20" in (ROOT / "docs" / "PAPERS.md").read_text()


def test_variation_of_repetitions() -> None:
    first = trainings()[0]
    found = [(1, 3), (2, 5), (3, None)]
    scores = [replace(first.scores, epochs_to_quality=epochs) for _, epochs in found]
    settings = [{**first.settings, "SEED": seed} for seed, _ in found]
    seeds = [replace(first, settings=one, scores=other) for one, other in zip(settings, scores, strict=True)]
    rows = {row["seed"]: row["epochs to quality"] for row in table("v2-table1", seeds)}
    assert rows == {"1": 3.0, "2": 5.0, "3": None, "mean": 4.0, "coefficient of variation, %": pytest.approx(35.355339)}


@pytest.mark.slow
def test_what_does_not_belong_together_is_refused() -> None:
    finished = command("v2-table1", GOLDEN)
    assert finished.returncode == 2 and finished.stderr.count("\n") == 1
    assert "tests do not belong together: GROUPS is 2 and 1; allowed to differ: SEED, REPEAT" in finished.stderr
    finished = command("v3-fig5", GOLDEN, GOLDEN / "weather")
    assert "do not belong together: workload is ensemble and weather" in finished.stderr
    assert "no test of" in command("aiperf-fig4", GOLDEN).stderr
    assert "invalid choice" in command("v9-fig9", GOLDEN).stderr


def test_other_machines_are_refused() -> None:
    result = result_of(golden())
    other = replace(result, environment=replace(result.environment, processor="another processor"))
    with pytest.raises(InputError, match="processor of the machine"):
        reading.agree([result, other], list(result.tests), figure("v3-fig5"))


def test_ranks_with_another_number_of_threads_are_refused_unless_they_have_gpus() -> None:
    result, tests = result_of(golden()), list(result_of(golden()).tests)
    other = replace(result, ranks=tuple(replace(rank, threads=rank.threads + 3) for rank in result.ranks))
    with pytest.raises(InputError, match=r"threads of ranks of the machine is \[1\] and \[4\]"):
        reading.agree([result, other], tests, figure("v3-fig5"))
    on_gpus = [replace(one, ranks=tuple(replace(rank, device="H") for rank in one.ranks)) for one in (result, other)]
    reading.agree(on_gpus, tests, figure("v3-fig5"))


def test_an_altered_result_is_refused(tmp_path: Path) -> None:
    shutil.copy(GOLDEN / "result.json", tmp_path)
    document = json.loads((tmp_path / "result.json").read_text())
    document["tests"][0]["gflops"] *= 2
    (tmp_path / "result.json").write_text(json.dumps(document))
    finished = command("v3-fig5", tmp_path)
    assert finished.returncode == 2 and "is not verified" in finished.stderr


@pytest.mark.parametrize(("high", "scale"), [(99.0, "linear"), (101.0, "log")])
def test_curves_of_other_magnitudes_have_a_logarithmic_axis(high: float, scale: str) -> None:
    from matplotlib.figure import Figure as Canvas

    from hpcai.study import drawing

    axes = Canvas().subplots()
    drawing.draw_curves(axes, (Curve("low", ((1.0, 1.0), (2.0, 0.5))), Curve("high", ((1.0, high), (2.0, high)))))
    assert axes.get_yscale() == scale
    assert axes.get_ylim()[0] == (0 if scale == "linear" else pytest.approx(0.25))


def test_curves_of_one_point_at_one_place_are_bars_with_values(tmp_path: Path) -> None:
    from hpcai.study import drawing

    curves = tuple(Curve(label, ((2.0, value),)) for label, value in (("slow", 1.25), ("fast", 2.5)))
    drawing.save(tmp_path, "bars", figure("v3-fig5"), Drawing(("a",), (), curves))
    text = (tmp_path / "bars.svg").read_text()
    assert all(f"<!-- {word} -->" in text for word in ("slow", "fast", "1.25", "2.5", "measured here, ranks: 2"))
    drawing.save(tmp_path, "lines", figure("v3-fig5"), Drawing(("a",), (), curves[:1]))
    assert "<!-- 1.25 -->" not in (tmp_path / "lines.svg").read_text()
