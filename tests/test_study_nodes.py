"""Figures of the nodes over time, of their traffic, of tables of products, and of images and weather together."""

import csv
from pathlib import Path

import pytest
from msgspec.structs import replace
from result_with_tables import result_with_tables
from small_run import GOLDEN, WEATHER
from test_over_nodes import of_two_nodes
from test_study import command, table, trainings

from hpcai.errors import InputError
from hpcai.record.entry import Row
from hpcai.record.loading import load
from hpcai.record.plain import text
from hpcai.study import reading
from hpcai.study.figure import KernelTable
from hpcai.study.figures import figure


def with_traffic() -> Row:
    """The stored test of two ranks, with made-up traffic in its two samples."""
    first = trainings()[1]
    telemetry = first.telemetry
    assert telemetry
    quiet, busy = (None, None, 0.0, 0.0, None), (None, None, 2e6, 6e6, None)
    samples = ((1.0, 0.5, 10.0, *quiet, None, None), (3.0, 0.5, 10.0, *busy, None, None))
    average = replace(telemetry.average, received_between=4e6 / 3, sent_between=4e6, sent_within=None)
    most = replace(telemetry.maximum, received_between=2e6, sent_between=6e6, sent_within=None)
    return replace(first, telemetry=replace(telemetry, series=samples, average=average, maximum=most))


def test_traffic_over_time_beside_the_computed_mean() -> None:
    test = with_traffic()
    made = figure("v2-fig5").draw([test])
    sent, steps = test.raw.sent, test.raw.work.steps
    mean = sum(sent.bytes.values()) * steps * 2 / test.seconds / 1e6
    curves = {curve.label.partition(", test")[0]: curve.points for curve in made.curves}
    assert curves == {
        "received between nodes": ((1.0, 0.0), (3.0, 2.0)),
        "sent between nodes": ((1.0, 0.0), (3.0, 6.0)),
        "computed for gradients, mean": ((0.0, pytest.approx(mean)), (3.0, pytest.approx(mean))),
    }
    row = table("v2-fig5", [test])[0]
    assert row["sent between nodes, MB/s, mean"] == 4.0 and row["sent by NVLink, MB/s, mean"] is None
    assert row["computed for gradients, MB/s, mean"] == pytest.approx(mean)
    assert table("v2-fig5", [trainings()[0]])[0]["computed for gradients, MB/s, mean"] is None


def test_several_nodes_are_a_mean_with_a_band() -> None:
    test = of_two_nodes().entry
    over = test.telemetry.over_nodes
    [curve] = figure("v3-fig6").draw([test]).curves
    assert curve.points == tuple((at, row[0]) for at, row in zip(over.seconds, over.mean, strict=True))
    assert curve.band == tuple((low[0], high[0]) for low, high in zip(over.least, over.most, strict=True))
    assert "2 nodes" in curve.label and table("v3-fig6", [test])[0]["nodes"] == 2
    assert figure("v3-fig6").draw([trainings()[0]]).curves[0].band == ()


def test_rates_of_products_stand_beside_the_training_of_as_many_ranks(tmp_path: Path) -> None:
    """Made-up products take a nanosecond an operation, on each of two ranks."""
    (tmp_path / "result.json").write_text(text(result_with_tables()))
    finished = command("v2-fig1", tmp_path, "--out", tmp_path)
    assert finished.returncode == 0, finished.stderr
    rows = list(csv.DictReader((tmp_path / "v2-fig1.csv").open()))
    assert [row["ranks"] for row in rows] == ["2", "2"]
    for row, test in zip(rows, sorted(trainings(), key=lambda test: test.p), strict=True):
        assert [float(row[f"{what}, GFLOP/s"]) for what in ("convolution", "GEMM")] == pytest.approx([2.0, 2.0])
        assert float(row["training, GFLOP/s"]) == test.scores.flops / 1e9
        assert float(row["quality"]) == test.scores.quality


def test_rates_of_other_ranks_are_not_mixed() -> None:
    result = result_with_tables()
    tables = [KernelTable(4, table.rows) for table in reading.tables_of(result)]
    made = figure("v2-fig1").drawn(result.tests, tables)
    assert {row[2:4] for row in made.rows} == {(None, None)}
    points = {curve.label: curve.points for curve in made.curves}
    assert points["GEMM, fp32"] == ((4.0, pytest.approx(4.0)),) and len(points["training, fp32"]) == 2


def test_images_and_weather_are_each_against_their_own_smallest() -> None:
    images, weather = trainings()[1], load(WEATHER / "result.json").tests[0]
    faster = replace(weather, scores=replace(weather.scores, flops=2 * weather.scores.flops))
    half = replace(faster, settings={**weather.settings, "WIRE": "fp16"})
    rows = table("v2-fig4", [images, weather, half])
    assert [row["speed-up"] for row in rows] == [1.0, 1.0, 2.0]
    assert len({row["data"] for row in rows}) == 2
    assert len(figure("v2-fig4").draw([images, weather, half]).curves) == 3


def test_tests_of_one_workload_must_still_agree() -> None:
    results = [load(GOLDEN / "result.json"), load(WEATHER / "result.json")]
    weather, images = results[1].tests[0], trainings()[0]
    reading.agree(results, [images, weather], figure("v2-fig4"))
    other = replace(weather, settings={**weather.settings, "EPOCHS": 99})
    with pytest.raises(InputError, match="EPOCHS is"):
        reading.agree(results, [images, weather, other], figure("v2-fig4"))
    with pytest.raises(InputError, match="workload is ensemble and weather"):
        reading.agree(results, [images, weather], figure("v3-fig5"))


@pytest.mark.slow
def test_images_and_weather_are_drawn_from_two_results(tmp_path: Path) -> None:
    finished = command("v2-fig4", GOLDEN, WEATHER, "--out", tmp_path)
    assert finished.returncode == 0, finished.stderr
    assert "generated-weather" in finished.stdout and "fashion" in finished.stdout


def test_tables_of_other_products_do_not_belong_together() -> None:
    one = result_with_tables()
    table, *others = one.tables
    other = replace(one, tables=(replace(table, settings={**table.settings, "BATCH": 3}), *others))
    with pytest.raises(InputError, match="BATCH of tables is 2 and 3"):
        reading._tables_agree([one, other], ("PRECISION",))
    reading._tables_agree([one, one], ("PRECISION",))
    reading._tables_agree([one, other], ("PRECISION", "BATCH"))
