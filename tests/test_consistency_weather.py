"""The same for weather without its detections, which alone determine some of the numbers."""

from pathlib import Path

import pytest
from alterations import put
from small_run import golden_weather
from test_consistency import UNPROVEN as UNPROVEN_OF_IMAGES
from test_consistency import measured_numbers, name_of, passes

# Some of these are determined by others, and all but the last follow from the detections.
UNPROVEN = UNPROVEN_OF_IMAGES | {
    "raw.ensemble.precision", "raw.ensemble.loose_precision", "raw.ensemble.true_boxes", "raw.curve.average_precision",
    "raw.ensemble.bag_precision", "raw.ensemble.agreement", "raw.members.sum", "raw.members.min", "raw.members.max",
    "raw.members.best",
}  # fmt: skip


@pytest.mark.exhaustive
def test_most_numbers_cannot_be_altered_alone(tmp_path: Path) -> None:
    for path, value in measured_numbers(golden_weather()):
        for other in (value + 1, value - 1) if name_of(path) not in UNPROVEN else ():
            assert not passes(put(golden_weather(), path, other), tmp_path), f"{path}: {value} -> {other}"


def test_unproven_numbers_are_bounded(tmp_path: Path) -> None:
    bounded = {"precision", "loose_precision", "average_precision", "bag_precision", "agreement"}
    for path, value in measured_numbers(golden_weather()):
        if bounded & {*path}:
            for other in (-0.01, 96.1 if path[-1] == "agreement" else 1.01):
                assert not passes(put(golden_weather(), path, other), tmp_path), f"{path}: {value} -> {other}"
    for index in (0, 1):
        path = ("tests", index, "raw", "loading", "load_seconds")
        assert not passes(put(golden_weather(), path, -0.01), tmp_path)
