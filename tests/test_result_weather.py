"""Values derived from the raw measurements of weather: qualities, loading, summary, status; and their printed form."""

from pathlib import Path
from typing import Any

import h5py
import pytest
from alterations import verified
from examples.training import rebuilt, stored
from report_readers import assert_parsers_read_it, assert_report_matches
from result_with_weather import mixed_result
from small_run import WEATHER, golden_weather, weather_run
from written_files import write_unlisted

from hpcai.formulas import eligibility, official_rules, score
from hpcai.record.dataset import BoxValidation, ImageValidation
from hpcai.record.entry import Check
from hpcai.record.loading import load
from hpcai.record.plain import plain
from hpcai.record.training import TrainingRow
from hpcai.report import files
from hpcai.results.alterations import changed
from hpcai.results.reached import first_reaching
from hpcai.verification import verify
from hpcai.workloads.weather import QUALITY
from hpcai.workloads.weather.checks import loading_scores, qualities
from hpcai.workloads.weather.lines import block, precision_lines
from hpcai.workloads.weather.record import LoadingScores, WeatherRow

Json = dict[str, Any]
TEST, ONE_MODEL = stored("weather")


def row(**raw: Any) -> WeatherRow:
    """The first stored test with other raw measurements, by path with __ for dots."""
    alterations = (changed(f"raw.{path.replace('__', '.')}", value) for path, value in raw.items())
    entry: WeatherRow = rebuilt(TEST, *alterations).entry
    return entry


def check_of(entry: TrainingRow, name: str) -> Check:
    return next(check for check in entry.checks if check.name == name)


@pytest.mark.parametrize(
    ("classes", "mean"),
    [([0.2, 0.4], 0.3), ([0.2, None, 0.7], 0.45), ([None, None], 0.0), ([], 0.0), ([None, 0.25], 0.25)],
)
def test_mean_average_precision_is_of_classes_that_have_boxes(classes: list[float | None], mean: float) -> None:
    assert score.mean_precision(classes) == pytest.approx(mean, abs=1e-15)


def test_the_quality_of_a_validation_is_a_share_or_a_mean_precision() -> None:
    known = {"seconds": 1.0, "loss": 1.0, "counted": 10, "fingerprint": 1}
    shares = [ImageValidation(epoch=epoch, correct=correct, **known) for epoch, correct in ((1, 5), (2, 8))]
    found = ((1, (0.4, 0.6)), (2, (0.9, None)))
    means = [BoxValidation(epoch=epoch, average_precision=classes, **known) for epoch, classes in found]
    assert [entry.quality(10) for entry in (*shares, *means)] == [0.5, 0.8, 0.5, 0.9]
    for curve in (shares, means):
        assert first_reaching(QUALITY, curve, 10, 0.5) == curve[0]
        assert first_reaching(QUALITY, curve, 10, 0.6) == curve[1]
        assert first_reaching(QUALITY, curve, 10, 0.95) is None


def test_qualities_are_those_at_the_overlap_of_the_target() -> None:
    together = {
        "precision": [0.2, None],
        "loose_precision": [0.6, 0.5],
        "true_boxes": [7, 0],
        "bag_precision": [0.1, 0.2],
        "agreement": 12,
    }
    changes = {f"ensemble__{name}": value for name, value in together.items()}
    entry = row(**changes, members__sum=0.5, members__max=0.3)
    found = qualities(TEST.case, entry.raw)
    assert (found.quality, found.member_mean, found.out_of_bag) == (0.2, 0.25, pytest.approx(0.15))
    assert (entry.scores.loose_precision, entry.scores.class_precision) == (0.55, (0.2, None))
    assert found.disagreement == 0.75  # one pair in each of 48 frames
    assert (found.member_max, found.evaluated) == (0.3, 7)


def test_one_model_has_neither_bag_nor_disagreement() -> None:
    found = qualities(ONE_MODEL.case, ONE_MODEL.entry.raw)
    assert found.out_of_bag is None and found.disagreement is None


def test_identical_models_are_detected() -> None:
    check = check_of(row(replay__repeated=2), "models with the weights of the next one")
    assert (check.value, check.verdict) == (2, "FAILED")
    older = row(ensemble__agreement=48.0, replay__repeated=None)
    check = check_of(older, "pairwise disagreement of models, not 0")
    assert (check.value, check.verdict) == (0.0, "FAILED")


@pytest.mark.parametrize(("precision", "verdict"), [(0.92, "PASSED"), (1.0, "PASSED"), (1.02, "FAILED")])
def test_precisions_above_the_ceiling_pass_only_within_chance(precision: float, verdict: str) -> None:
    """The ceiling is 0.9216, and 0.018 the standard error of a share of 229 boxes: 1.02 is impossible."""
    check = check_of(row(members__max=precision), "quality above the ceiling: standard errors")
    assert check.verdict == verdict


def test_loading_is_reported_as_shares_of_the_training_of_all_ranks() -> None:
    loading = {"bytes_read": 6000, "read_seconds": 2.0, "decompress_seconds": 12.0, "load_seconds": 4.0}
    found = row(phases__training=4.0, loading=loading)
    shares = {"reading_share": 0.25, "decompressing_share": 1.5, "loading_share": 0.5}
    assert loading_scores(TEST.case, found.raw) == LoadingScores(read_rate=1500.0, **shares)
    unread = row(phases__training=4.0, loading={**loading, "bytes_read": 0})
    nothing = {"read_rate": None, "reading_share": None, "decompressing_share": None, "loading_share": 0.5}
    assert loading_scores(TEST.case, unread.raw) == LoadingScores(**nothing)


FACTS = {
    "dataset": "extremeweather", "original": True, "samples": 25 * 1460, "validation": 1460, "epochs": 50,
    "classes": 4, "resolution": (768, 1152), "network": "fasterrcnn50", "variant": "v1.5",
    "target": 0.35, "penalty": 10, "bits": 16, "passed": True, "completed": True,
}  # fmt: skip
GENERATED = FACTS | {"dataset": "generated-weather-4x768"}


@pytest.mark.parametrize(
    ("change", "status", "reason"),
    [
        ({}, "VALID", ""),
        ({"penalty": 10.0}, "VALID", ""),
        ({"penalty": 5}, "INVALID", "penalty 5, official 10"),
        ({"epochs": 49}, "INVALID", "epochs 49, official 50"),
        ({"network": "fasterrcnn8"}, "INVALID", "network fasterrcnn8, official fasterrcnn50"),
        ({"resolution": (96, 144)}, "INVALID", "resolution 96x144, official 768x1152"),
        ({"classes": 2}, "UNOFFICIAL", "classes 2, official 4"),
        ({"target": 0.3}, "INVALID", "target 0.3, official 0.35"),
        ({"bits": 8}, "INVALID", "precision 8 bits, official at least 16"),
        ({"passed": False}, "INVALID", "checks FAILED, official PASSED"),
        ({"samples": 1}, "UNOFFICIAL", f"samples 1, official {24 * 1456} to {26 * 1460}"),
        ({"samples": 26 * 1460 + 1}, "UNOFFICIAL", f"samples {26 * 1460 + 1}, official {24 * 1456} to {26 * 1460}"),
        ({"samples": float("nan")}, "UNOFFICIAL", f"samples nan, official {24 * 1456} to {26 * 1460}"),
        ({"validation": 10}, "UNOFFICIAL", "validation samples 10, official 1456 to 1460"),
        ({"validation": 2 * 1460}, "UNOFFICIAL", "validation samples 2920, official 1456 to 1460"),
        ({"original": False}, "UNOFFICIAL", "dataset extremeweather altered, official extremeweather unaltered"),
        (GENERATED, "UNOFFICIAL", "dataset generated-weather-4x768, official extremeweather"),
        (GENERATED | {"penalty": 5}, "INVALID", "penalty 5, official 10"),
        ({"dataset": "imagenet"}, "UNOFFICIAL", "dataset imagenet, official extremeweather"),
    ],
)
def test_each_rule_of_weather_can_be_broken(change: Json, status: str, reason: str) -> None:
    found = eligibility.official(FACTS | change, official_rules.WEATHER)
    assert (found.status, found.reasons[:1]) == (status, (reason,) if reason else ())


OFFICIAL = {"ensemble": official_rules.IMAGES, "weather": official_rules.WEATHER}


@pytest.mark.parametrize("own", OFFICIAL)
def test_official_settings_are_those_of_each_workload(own: str) -> None:
    images = {"dataset": "imagenet", "samples": 1_281_167, "epochs": 90, "target": 0.763, "penalty": 5}
    images |= {"classes": 1000, "resolution": (224, 224), "network": "resnet50"}
    valid = {"ensemble": FACTS | images, "weather": FACTS}
    for workload, facts in valid.items():
        assert (eligibility.official(facts, OFFICIAL[own]).status == "VALID") == (workload == own)


def test_weather_has_a_best_row_of_its_own_after_ensembles(tmp_path: Path) -> None:
    result = mixed_result()
    images, weather, search = result.summary.best
    assert (images.workload, weather.workload, search.workload) == ("ensemble", "weather", "nas")
    assert images.index in (1, 2) and search.index == 5
    own = max(result.tests[2:4], key=lambda test: float(test.scores.valid_flops))
    assert (weather.index, weather.quality, weather.gflops) == (own.index, own.scores.quality, own.gflops)
    assert weather.figures == {"valid_gflops": own.scores.valid_flops / 1e9, "apc_gflop": own.scores.apc / 1e9}
    report = files.report(result)
    assert_report_matches(report, plain(result))
    assert_parsers_read_it(report, plain(result))
    assert verified(plain(result), tmp_path) == []


def test_weather_without_ensembles_is_the_first_best_row() -> None:
    alone = mixed_result(ensembles=False, search=False).summary.best
    assert [best.workload for best in alone] == ["weather"] and alone[0].index in (1, 2)
    assert [best.workload for best in mixed_result(ensembles=False).summary.best] == ["weather", "nas"]


def test_the_stored_report_and_table() -> None:
    result = load(WEATHER / "result.json")
    report = (WEATHER / "report.txt").read_text("utf-8")
    texts = {name: "".join(parts) for name, parts in files.texts(result).items()}
    assert texts["report.txt"] == report and texts["result.csv"] == (WEATHER / "result.csv").read_text("utf-8")
    assert_report_matches(report, golden_weather())
    assert_parsers_read_it(report, golden_weather())


@pytest.mark.exhaustive
def test_a_real_report_agrees_with_the_json() -> None:
    run = weather_run()
    report = (run.folder / "report.txt").read_text("utf-8")
    assert_report_matches(report, run.result)
    assert_parsers_read_it(report, run.result)


def test_lines_of_classes_and_of_reading_are_printed() -> None:
    loading = {"bytes_read": 10**9, "read_seconds": 1.0, "decompress_seconds": 2.0, "load_seconds": 2.0}
    entry = row(ensemble__precision=[0.25, None, 0.5, 0.125], phases__training=0.4, loading=loading)
    found = [[part.strip() for part in line.split("=")] for line in precision_lines(entry.scores)]
    assert found == [
        ["AP at an overlap of 0.5, tropical depression", "0.2500000"],
        ["AP at an overlap of 0.5, tropical cyclone", "n/a, no box"],
        ["AP at an overlap of 0.5, extratropical cyclone", "0.5000000"],
        ["AP at an overlap of 0.5, atmospheric river", "0.1250000"],
    ]
    assert "fields read in training, GB/s=        2.5000000\n" in block(entry)
    assert "fields read in training, GB/s= n/a, nothing read\n" in block(TEST.entry)


def test_the_series_contain_the_curves(tmp_path: Path) -> None:
    result = mixed_result()
    write_unlisted(tmp_path, result)
    with h5py.File(tmp_path / "series.h5") as file:
        means = [entry.quality(48) for entry in TEST.entry.raw.curve]
        assert file["test-3/curve/quality"][()].tolist() == pytest.approx(means, abs=1e-12)
    assert verify.differences(tmp_path / "result.json") == []


@pytest.mark.slow
def test_the_plots_are_drawn(tmp_path: Path) -> None:
    from hpcai.report import plots

    names = [path.name for path in plots.draw([mixed_result()], tmp_path)]
    assert sorted(names) == ["learning.png", "phases.png", "scaling.png", "score.png", "tree.png"]
    assert len(plots.draw([load(WEATHER / "result.json")], tmp_path)) == 3
