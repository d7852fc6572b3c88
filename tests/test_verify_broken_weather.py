"""Verification of weather that ended early, and of results of it that are no results: named, never a crash."""

import json
from pathlib import Path
from typing import Any

import pytest
from alterations import found_in, places, put, verified
from hpcai.result.judge import per_sample
from small_run import cases_of, golden, golden_weather, judged
from test_verify_hostile import NONSENSE

from hpcai import result as results

Json = dict[str, Any]
CLASSES = "curve: of classes that the dataset has"


def ended(entry: Json, steps: int = 4) -> Json:
    """The stored run, had it ended in its second test, one model on two ranks, after the first of two epochs."""
    result = golden_weather()
    raw, case = result["tests"].pop()["raw"], cases_of(result)[1]
    found = {"where": "training", "dataset": raw["dataset"], "samples": 60, "skipped_samples": 0, "steps": 2}
    found |= {"executed_operations": 60 * per_sample(case, raw), "seconds": 0.5}
    found |= {"curve": [{**raw["curve"][0], **entry}]}
    return judged({**result, "broken_off": results.broken_off(case, "SIGTERM on rank 1", found)})


@pytest.mark.parametrize("entry", [{}, {"loss": None}, {"average_precision": [None, 0.5]}])
def test_an_early_end_is_verified(entry: Json, tmp_path: Path) -> None:
    assert verified(ended(entry), tmp_path) == []


@pytest.mark.parametrize(
    ("claim", "entry"),
    [
        ("curve: counted = validation_samples", {"counted": 47}),
        ("curve: a quality from 0 to 1", {"average_precision": [1.2, 1.2]}),
        (CLASSES, {"average_precision": [1.2, 0.0]}),
        (CLASSES, {"average_precision": [0.1]}),
        (CLASSES, {"average_precision": []}),
        ("curve: of epochs that were trained", {"epoch": 2}),
    ],
)
def test_each_claim_can_be_broken(claim: str, entry: Json, tmp_path: Path) -> None:
    assert claim in verified(ended(entry), tmp_path)


def test_weather_has_no_curve_of_pictures_and_pictures_none_of_weather(tmp_path: Path) -> None:
    claim = "curve: of what the workload finds"
    result = ended({})
    entry = result["broken_off"]["raw"]["curve"][0]
    del entry["average_precision"]
    entry["correct"] = 40
    assert claim in verified(judged(result), tmp_path)
    pictures = golden()
    raw, case = pictures["tests"].pop()["raw"], cases_of(pictures)[1]
    found = {"where": "training", "dataset": raw["dataset"], "samples": 200, "skipped_samples": 0, "steps": 4}
    found |= {"executed_operations": 200 * per_sample(case, raw), "seconds": 0.5, "curve": raw["curve"][:1]}
    del found["curve"][0]["correct"]
    found["curve"][0]["average_precision"] = [1.0] * 10
    broken = judged({**pictures, "broken_off": results.broken_off(case, "SIGTERM on rank 1", found)})
    assert claim in verified(broken, tmp_path)


def test_nonsense_in_any_place_is_caught(tmp_path: Path) -> None:
    for index, path in enumerate(places(golden_weather()["tests"][0], ("tests", 0))):
        result = put(golden_weather(), path, NONSENSE[index % len(NONSENSE)])
        (tmp_path / "result.json").write_text(json.dumps(result), "utf-8")
        assert result == golden_weather() or found_in(tmp_path / "result.json"), path


@pytest.mark.parametrize("value", [[], [None], [None, None], [0.5] * 3, [0.5, None], [1e308, 1e308], [-1e308, 1]])
@pytest.mark.parametrize("name", ["true_boxes", "bag_average_precision", "0.5", "0.1", "curve"])
def test_lists_of_another_length_are_caught_though_all_else_is_made_again(
    name: str, value: list[Any], tmp_path: Path
) -> None:
    result = golden_weather()
    raw = result["tests"][0]["raw"]
    if name == "curve":
        raw["curve"][0]["average_precision"] = value
    elif name == "true_boxes":
        raw["true_boxes"] = [int(item or 0) if abs(item or 0) < 1e9 else 10**400 for item in value]
    else:
        (raw["average_precision"] if name in ("0.5", "0.1") else raw)[name] = value
    try:
        altered = judged(result)
    except (ArithmeticError, ValueError):  # nothing can be made of it
        return
    if name != "bag_average_precision" or len(value) != 2 or any(abs(item or 0) > 1 for item in value):
        assert verified(altered, tmp_path)
