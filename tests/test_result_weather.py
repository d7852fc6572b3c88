"""What follows from the raw measurements of weather: qualities, loading, summary, verdict; and how it is told."""

from pathlib import Path
from typing import Any

import h5py
import pytest
from alterations import verified
from hpcai.result.loading import loading
from hpcai.result.quality import best, disagreement, qualities
from hpcai.result.quality import judged as things_judged
from made_weather import mixed
from report_readers import assert_parsers_read_it, assert_tells
from small_run import WEATHER, cases_of, golden_weather, judged, weather_run

from hpcai.formulas import eligibility, score
from hpcai.report import files, plots, verify
from hpcai.report import weather as lines_of

Json = dict[str, Any]


def case_and_raw(index: int = 0) -> tuple[Any, Json]:
    result = golden_weather()
    return cases_of(result)[index], result["tests"][index]["raw"]


@pytest.mark.parametrize(
    ("classes", "mean"),
    [([0.2, 0.4], 0.3), ([0.2, None, 0.7], 0.45), ([None, None], 0.0), ([], 0.0), ([None, 0.25], 0.25)],
)
def test_mean_average_precision_is_of_classes_that_have_boxes(classes: list[float | None], mean: float) -> None:
    assert score.mean_precision(classes) == pytest.approx(mean, abs=1e-15)


def test_an_entry_of_a_curve_is_a_share_or_a_mean_precision() -> None:
    shares = [{"correct": 5, "epoch": 1}, {"correct": 8, "epoch": 2}]
    means = [{"average_precision": [0.4, 0.6], "epoch": 1}, {"average_precision": [0.9, None], "epoch": 2}]
    assert [score.quality(entry, 10) for entry in (*shares, *means)] == [0.5, 0.8, 0.5, 0.9]
    for curve in (shares, means):
        assert score.first_reaching(curve, 10, 0.5) == curve[0]
        assert score.first_reaching(curve, 10, 0.6) == curve[1]
        assert score.first_reaching(curve, 10, 0.95) is None


def test_qualities_are_those_of_the_overlap_that_the_target_is_of() -> None:
    case, raw = case_and_raw()
    raw |= {"average_precision": {"0.5": [0.2, None], "0.1": [0.6, 0.5]}, "true_boxes": [7, 0]}
    raw |= {"member_quality_sum": 0.5, "member_quality_max": 0.3, "bag_average_precision": [0.1, 0.2], "agreement": 12}
    found = qualities(case, raw)
    assert (found["quality"], found["member_mean"], found["out_of_bag"]) == (0.2, 0.25, pytest.approx(0.15))
    assert found["mean_average_precision"] == {"0.5": 0.2, "0.1": 0.55} and found["class_precision"] == [0.2, None]
    assert found["disagreement"] == disagreement(case, raw) == 0.75  # of one pair in each of 48 frames
    assert (best(case, raw), things_judged(raw)) == (0.3, 7)


def test_one_model_has_neither_bag_nor_disagreement() -> None:
    found = qualities(*case_and_raw(1))
    assert found["out_of_bag"] is None and found["disagreement"] is None


def test_models_that_are_the_same_are_found() -> None:
    result = golden_weather()
    result["tests"][0]["raw"]["agreement"] = 48.0
    check = judged(result)["tests"][0]["checks"][-1]
    assert check == {**check, "name": "pairwise disagreement of models, not 0", "value": 0.0, "verdict": "FAILED"}


@pytest.mark.parametrize(("precision", "verdict"), [(0.92, "PASSED"), (1.0, "PASSED"), (1.02, "FAILED")])
def test_nobody_is_better_than_the_ceiling_but_by_chance(precision: float, verdict: str) -> None:
    """The ceiling is 0.9216, and 0.018 the standard error of a share of 229 boxes: 1.02 is not to be had."""
    result = golden_weather()
    result["tests"][0]["raw"]["member_quality_max"] = precision
    assert verdict in {check["name"]: check["verdict"] for check in judged(result)["tests"][0]["checks"]}[
        "quality above the ceiling: standard errors"
    ]


def test_loading_is_told_as_shares_of_what_all_ranks_trained() -> None:
    case, raw = case_and_raw()
    raw["phases"]["training"] = 4.0
    raw["loading"] = {"bytes_read": 6000, "read_seconds": 2.0, "decompress_seconds": 12.0, "load_seconds": 4.0}
    shares = {"reading_share": 0.25, "decompressing_share": 1.5, "loading_share": 0.5}
    assert loading(case, raw) == {"loading": {"read_rate": 1500.0, **shares}}
    raw["loading"]["bytes_read"] = 0
    unread = {"read_rate": None, "reading_share": None, "decompressing_share": None, "loading_share": 0.5}
    assert loading(case, raw) == {"loading": unread}
    del raw["loading"]  # of pictures
    assert loading(case, raw) == {}


FACTS = {
    "dataset": "extremeweather", "original": True, "samples": 25 * 1460, "validation": 1460, "epochs": 50,
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
def test_the_rules_of_weather(change: Json, status: str, reason: str) -> None:
    found = eligibility.official(FACTS | change, eligibility.WEATHER)
    assert (found.status, found.reasons[:1]) == (status, (reason,) if reason else ())


@pytest.mark.parametrize("own", eligibility.OFFICIAL)
def test_what_is_official_of_one_workload_is_not_of_the_other(own: str) -> None:
    images = {"dataset": "imagenet", "samples": 1_281_167, "epochs": 90, "target": 0.763, "penalty": 5}
    valid = {"ensemble": FACTS | images, "weather": FACTS}
    for workload, facts in valid.items():
        assert (eligibility.official(facts, eligibility.OFFICIAL[own]).status == "VALID") == (workload == own)


def test_weather_has_its_own_lines_in_the_summary_behind_ensembles(tmp_path: Path) -> None:
    result = mixed()
    summary, tests = result["summary"], result["tests"]
    assert summary["best"]["index"] in (1, 2) and "valid_gflops" in summary["best"]
    own = max(tests[2:4], key=lambda test: float(test["scores"]["valid_flops"]))
    told = {"index": own["index"], "valid_gflops": own["scores"]["valid_flops"] / 1e9}
    told |= {"quality": own["scores"]["quality"], "gflops": own["gflops"]}
    assert summary["weather"] == {f"weather_{name}": value for name, value in told.items()}
    assert summary["search"]["search_index"] == 5
    report = files.report(result)
    assert_tells(report, result)
    assert_parsers_read_it(report, result)
    assert report.count("\nweather_index=") == report.count("\nsearch_index=") == 1
    assert verified(result, tmp_path) == []


def test_weather_without_ensembles_is_the_best_row() -> None:
    result = mixed(ensembles=False)
    assert result["summary"]["best"]["index"] in (1, 2) and "weather" not in result["summary"]
    assert result["summary"]["search"]["search_index"] == 3
    assert "search" not in mixed(ensembles=False, search=False)["summary"]


def test_the_stored_report_and_table() -> None:
    result = golden_weather()
    report = (WEATHER / "report.txt").read_text("utf-8")
    assert files.report(result) == report and files.table(result) == (WEATHER / "result.csv").read_text("utf-8")
    assert_tells(report, result)
    assert_parsers_read_it(report, result)


def test_a_real_report_tells_what_the_json_says() -> None:
    run = weather_run()
    report = (run.folder / "report.txt").read_text("utf-8")
    assert_tells(report, run.result)
    assert_parsers_read_it(report, run.result)


def test_lines_of_classes_and_of_reading() -> None:
    test = golden_weather()["tests"][0]
    test["scores"] |= {"class_precision": [0.25, None, 0.5, 0.125]}
    test["scores"]["loading"] |= {"read_rate": 2.5e9, "reading_share": 0.5, "decompressing_share": 1.25}
    told = [[part.strip() for part in line.split("=")] for line in lines_of.lines(test)]
    assert told[2:6] == [
        ["AP at 0.5, tropical depression", "0.2500000"],
        ["AP at 0.5, tropical cyclone", "n/a, no box"],
        ["AP at 0.5, extratropical cyclone", "0.5000000"],
        ["AP at 0.5, atmospheric river", "0.1250000"],
    ]
    assert [value for _, value in told[6:]][::2] == ["2.5000000", "0.5000000"]
    assert [*lines_of.lines({**test, "workload": "ensemble"})] == []
    test["scores"]["loading"]["read_rate"] = None
    for dataset, words in (("generated", "n/a, generated"), ("extremeweather:x", "n/a, nothing read")):
        test["settings"]["DATASET"] = dataset
        assert [line.partition("= ")[2].strip() for line in lines_of.lines(test)][6] == words


def test_curves_and_pictures(tmp_path: Path) -> None:
    files.write(tmp_path, mixed())
    curve = golden_weather()["tests"][0]["raw"]["curve"]
    with h5py.File(tmp_path / "series.h5") as file:
        means = [sum(entry["average_precision"]) / 2 for entry in curve]
        assert file["test-3/curve/quality"][()].tolist() == pytest.approx(means, abs=1e-12)
    assert verify.differences(tmp_path / "result.json") == []
    names = [path.name for path in plots.draw([mixed()], tmp_path)]
    assert sorted(names) == ["learning.png", "phases.png", "scaling.png", "score.png", "tree.png"]
    assert len(plots.draw([golden_weather()], tmp_path)) == 3
    assert plots._kinds(mixed()["tests"][:4]) == "top-1 or mAP"
