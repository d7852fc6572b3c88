"""Verification of weather that ended early, and of invalid results of it: reported, never a crash."""

import json
from pathlib import Path
from typing import Any

import pytest
from alterations import found_in, places, put, verified
from msgspec import convert
from sampled_parameters import IN_PARTS, of_part
from small_run import cases_of, golden, golden_weather, rebuilt
from test_verify_hostile import NONSENSE

from hpcai.errors import InputError
from hpcai.record.loading import result_of
from hpcai.record.plain import plain
from hpcai.results.assembly import broken_off
from hpcai.results.row import per_sample
from hpcai.verification import verify
from hpcai.workloads.weather.record import StoppedWeather

Json = dict[str, Any]
CLASSES = "broken_off: curve: a precision for each class"


def ended(entry: Json, steps: int = 4) -> Json:
    """The stored run, if it had ended in its second test, one model on two ranks, after the first of two epochs."""
    result = golden_weather()
    dataset = result_of(result).tests[1].raw.dataset
    raw, case = result["tests"].pop()["raw"], cases_of(result)[1]
    found = {"where": "training", "dataset": raw["dataset"], "samples": 60, "skipped_samples": 0, "steps": 2}
    found |= {"executed_operations": 60 * per_sample(case, dataset), "seconds": 0.5}
    stopped = convert({**found, "curve": [{**raw["curve"][0], **entry}]}, StoppedWeather)
    return rebuilt({**result, "broken_off": plain(broken_off(case, "SIGTERM on rank 1", stopped))})


@pytest.mark.parametrize("entry", [{}, {"loss": None}, {"average_precision": [None, 0.5]}])
def test_an_early_end_is_verified(entry: Json, tmp_path: Path) -> None:
    assert verified(ended(entry), tmp_path) == []


@pytest.mark.parametrize(
    ("claim", "entry"),
    [
        ("broken_off: curve: counted = validation_samples", {"counted": 47}),
        (CLASSES, {"average_precision": [1.2, 1.2]}),
        (CLASSES, {"average_precision": [1.2, 0.0]}),
        (CLASSES, {"average_precision": [0.1]}),
        (CLASSES, {"average_precision": []}),
        ("broken_off: curve: of epochs that were trained", {"epoch": 2}),
    ],
)
def test_each_claim_can_be_violated(claim: str, entry: Json, tmp_path: Path) -> None:
    assert claim in verified(ended(entry), tmp_path)


def test_curves_of_images_and_weather_cannot_be_exchanged() -> None:
    result = ended({})
    entry = result["broken_off"]["raw"]["curve"][0]
    del entry["average_precision"]
    with pytest.raises(InputError, match=r"broken_off\.raw\.curve\[0\]"):
        result_of({**result, "broken_off": put(result, ("broken_off", "raw", "curve", 0, "correct"), 40)["broken_off"]})
    images = golden()
    images["tests"][1]["raw"]["curve"][0]["average_precision"] = [1.0] * 10
    with pytest.raises(InputError, match=r"tests\[1\]\.raw\.curve\[0\]"):
        result_of(images)


@pytest.mark.slow
@IN_PARTS
def test_nonsense_in_any_place_is_detected(tmp_path: Path, part: int) -> None:
    for index, path in enumerate(of_part(places(golden_weather()["tests"][0], ("tests", 0)), part)):
        result = put(golden_weather(), path, NONSENSE[index % len(NONSENSE)])
        (tmp_path / "result.json").write_text(json.dumps(result), "utf-8")
        assert result == golden_weather() or found_in(tmp_path / "result.json"), path


@pytest.mark.parametrize("value", [[], [None], [None, None], [0.5] * 3, [0.5, None], [1e308, 1e308], [-1e308, 1]])
@pytest.mark.parametrize("name", ["true_boxes", "bag_precision", "precision", "loose_precision", "curve"])
def test_lists_of_another_length_are_detected_in_results_computed_again(name: str, value: list[Any]) -> None:
    result = golden_weather()
    raw = result["tests"][0]["raw"]
    if name == "curve":
        raw["curve"][0]["average_precision"] = value
    elif name == "true_boxes":
        raw["ensemble"]["true_boxes"] = [int(item or 0) if abs(item or 0) < 1e9 else 10**400 for item in value]
    else:
        raw["ensemble"][name] = value
    try:
        made = rebuilt(result)
    except (InputError, ArithmeticError, ValueError):  # it cannot be computed again
        return
    sound = name == "bag_precision" and len(value) == 2 and all(abs(item or 0) <= 1 for item in value)
    assert sound or made["tests"][0]["verdict"] == "FAILED" or [*verify.contradictions(result_of(made))]
