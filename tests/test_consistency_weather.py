"""What raw measurements of weather owe each other, without their detections: a forger is caught by most of them."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from alterations import Where, leaves, put, verified
from hpcai.report.consistency.dataset import description_of
from small_run import cases_of, golden_weather, judged
from test_consistency import UNPROVEN as UNPROVEN_OF_PICTURES

from hpcai.errors import HpcaiError
from hpcai.report import consistency

Json = dict[str, Any]
# Of these some say no more than others, and all but the last are told by the detections.
UNPROVEN = UNPROVEN_OF_PICTURES | {
    "average_precision.0.5", "average_precision.0.1", "true_boxes", "curve.average_precision", "bag_average_precision",
    "agreement", "member_quality_sum", "member_quality_min", "member_quality_max", "member_quality_best",
    "loading.load_seconds",
}  # fmt: skip


def raw_numbers() -> Iterator[tuple[Where, Any]]:
    for index, test in enumerate(golden_weather()["tests"]):
        for path, value in leaves(test["raw"], ("tests", index, "raw")):
            if type(value) in (int, float) and "telemetry" not in path:
                yield path, value


def passes(path: Where, value: Any, folder: Path) -> bool:
    """Whether the stored result, one number altered and all that follows from it made anew, is PASSED and verified."""
    try:
        result = judged(put(golden_weather(), path, value))
    except (HpcaiError, ArithmeticError, ValueError, TypeError):
        return False
    return result["summary"]["failed"] == 0 and not verified(result, folder)


def test_most_numbers_cannot_be_altered_alone(tmp_path: Path) -> None:
    for path, value in raw_numbers():
        name = ".".join(key for key in path[3:] if isinstance(key, str))
        for other in (value + 1, value - 1) if name not in UNPROVEN else ():
            assert not passes(path, other, tmp_path), f"{path}: {value} -> {other}"


def test_what_is_unproven_is_bounded(tmp_path: Path) -> None:
    for path, value in raw_numbers():
        if {"average_precision", "bag_average_precision", "agreement", "load_seconds"} & {*path}:
            for other in (-0.01, 96.1 if path[-1] == "agreement" else 1.01 + 1e3 * (path[-1] == "load_seconds")):
                assert not passes(path, other, tmp_path), f"{path}: {value} -> {other}"


def altered(result: Json, index: int, raw: Json) -> Json:
    """The raw measurements of a test with others in their place; of objects with others in theirs."""
    test: Json = result["tests"][index]["raw"]
    for name, value in raw.items():
        test[name] = {**test[name], **value} if isinstance(value, dict) else value
    return test


def broken(index: int, **raw: Any) -> list[str]:
    """The claims that a test of the stored result breaks with other raw measurements."""
    result = golden_weather()
    return list(consistency.contradictions(cases_of(result)[index], altered(result, index, raw)))


def curve(index: int, entry: int, **values: Any) -> Json:
    """Another validation curve: one entry has other values."""
    entries = golden_weather()["tests"][index]["raw"]["curve"]
    entries[entry] |= values
    return {"curve": entries}


PRECISE = "average_precision: of each class that has true boxes"
OF_CURVE = "curve: a precision for each class that has true boxes"


@pytest.mark.parametrize(
    ("claim", "index", "raw"),
    [
        ("dataset: the one that the input names", 0, {"dataset": {"ceiling": 0.95}}),
        ("dataset: the one that the input names", 0, {"dataset": {"validation_samples": 80}}),
        ("target: TARGET, or the dataset's own", 0, {"target": 0.002}),
        ("curve: epochs that EVALUATE asks for", 0, curve(0, 0, epoch=2)),
        ("curve: no loss is missing", 0, curve(0, 0, loss=None)),
        ("curve: time goes on", 0, curve(0, 0, seconds=1e6)),
        ("curve: counted = validation_samples", 0, curve(0, 0, counted=47)),
        ("curve: the fingerprint of all samples", 0, curve(0, 0, fingerprint=1)),
        ("curve: a quality from 0 to 1", 0, curve(0, 0, average_precision=[1.5, 1.5])),
        (OF_CURVE, 0, curve(0, 0, average_precision=[0.1])),
        (OF_CURVE, 0, curve(0, 0, average_precision=[None, 0.1])),
        (OF_CURVE, 0, curve(0, 0, average_precision=[1.5, 0.0])),
        ("validation_passes = GROUPS x evaluated epochs", 0, {"validation_passes": 5}),
        ("validation_counted = passes x samples", 0, {"validation_counted": 191}),
        ("true_boxes: a number for each class, some above 0", 0, {"true_boxes": [229]}),
        ("true_boxes: a number for each class, some above 0", 0, {"true_boxes": [0, 0]}),
        ("true_boxes: at most 15 a frame", 0, {"true_boxes": [700, 100]}),
        (PRECISE, 0, {"average_precision": {"0.1": [None, 0.1]}}),
        (PRECISE, 0, {"average_precision": {"0.5": [0.1, 0.1, 0.1]}}),
        (PRECISE, 0, {"true_boxes": [229, 0]}),
        ("average_precision: no less where less overlap is asked for", 0, {"average_precision": {"0.1": [0.0, 0.0]}}),
        ("bag_average_precision: from 0 to 1", 0, {"bag_average_precision": [1.1, 0.0]}),
        ("bag_average_precision: from 0 to 1", 0, {"bag_average_precision": [0.1]}),
        ("bag_average_precision: of no class where no frame was judged", 1, {"bag_average_precision": [0.1, 0.1]}),
        ("0 <= agreement <= pairs of models x samples", 0, {"agreement": 48.01}),
        ("0 <= agreement <= pairs of models x samples", 1, {"agreement": 0.1}),
        ("member_quality_min <= the first model's <= max", 0, curve(0, 1, average_precision=[0.9, 0.9])),
        ("member_quality_best >= max", 0, {"member_quality_best": 0.001}),
        ("member_quality_best <= 1", 0, {"member_quality_best": 1.01}),
        ("member_quality_sum: between min and max", 0, {"member_quality_sum": 0.5}),
        ("one model: its best is the curve's", 1, {"member_quality_best": 0.5}),
        ("one model: the ensemble is the model", 1, {"average_precision": {"0.5": [0.1, 0.1], "0.1": [0.2, 0.2]}}),
        ("reached_models > 0 if the best reached the target", 0, {"reached_models": 0}),
        ("bag_judged: what the samplers left out", 0, {"bag_judged": 33}),
        ("loading: nothing is read of generated fields", 0, {"loading": {"bytes_read": 1}}),
        ("loading: some time, within training", 0, {"loading": {"load_seconds": 0.0}}),
        ("loading: some time, within training", 0, {"loading": {"load_seconds": 1e6}}),
        ("loading: seconds only where something is read", 0, {"loading": {"read_seconds": 1.0}}),
        ("memory: picture_bytes of the dataset's shape", 0, {"memory": {"picture_bytes": 110592}}),
        ("memory: data_bytes hold the boxes", 0, {"memory": {"data_bytes": 32399}}),
        ("memory: samples of the dataset", 0, {"memory": {"samples": 61}}),
        ("memory: 0 < baseline_bytes", 0, {"memory": {"baseline_bytes": 0}}),
        ("backend is none if, and only if, DEGREE = 1", 1, {"backend": "none"}),
        ("execution: by what COMPILE allows", 0, {"execution": {"by": "torch.compile"}}),
    ],
)
def test_each_claim_can_be_broken(claim: str, index: int, raw: Json) -> None:
    assert broken(0) == broken(1) == []
    assert claim in broken(index, **raw)


def of_files(loading: Json, **changes: Any) -> list[str]:
    """The same claims, had the fields been read from files, packed ones unless 4 bytes a number are told."""
    result = golden_weather()
    case, numbers = cases_of(result)[0], 16 * 48 * 72
    case.settings["DATASET"], case.settings["RESOLUTION"] = "extremeweather:somewhere", 0
    memory = {"picture_bytes": 2 * numbers, "data_bytes": 10**6}
    dataset = {"classes": 4, "name": "extremeweather-48x72", **changes}
    raw = altered(result, 0, {"loading": loading, "memory": memory, "dataset": dataset})
    del raw["dataset"]["ceiling"], raw["dataset"]["ceiling_error"]
    claims = {**consistency.findings.loading(case, raw), **description_of(case, raw["dataset"])}
    return [claim for claim, holds in claims.items() if not holds]


def test_fields_of_files() -> None:
    every = 240 * 2 * 16 * 48 * 72
    claim = "loading: packed frames, each time they are trained on"
    assert of_files({"bytes_read": every, "read_seconds": 1.0}, classes=4) == ["classes = CLASSES"]
    for count in (every - 1, every + 1, 0):
        assert claim in of_files({"bytes_read": count})
    name = "dataset: the name that its size has"
    for other, wrong in (("extremeweather", True), ("generated-weather-48x72", False), ("extremeweather-72x48", True)):
        assert (name in of_files({"bytes_read": every}, name=other)) == wrong
    assert "dataset: fields of 16 channels with 4 classes" in of_files({"bytes_read": every}, classes=2)
