"""Faults planted into the real program while it trains detectors: each is detected by the check for it.

The audited step of this seed is the third of five in the group, the fifth of ten in the ensemble, as in
test_faults.py.
"""

import numpy as np
import pytest
from examples.training import rebuilt, stored
from fault_runs import (
    APART,
    CHANGED,
    DEVIATION,
    LOSS,
    LOST,
    OPERATIONS,
    OTHERS,
    SAME,
    SAMPLES,
    STALE,
    VALIDATION,
    Run,
    WeatherRun,
    holds,
    sweep,
)
from launch import mpirun
from msgspec.structs import replace

from hpcai.data import catalog
from hpcai.data.weather.box_cleaning import targets
from hpcai.detections.agreement import agreement
from hpcai.detections.coco_evaluation import average_precision, matched
from hpcai.record.check_declarations import CEILING, MOST_ABOVE
from hpcai.record.plain import plain
from hpcai.results.alterations import changed
from hpcai.results.checks import leak
from hpcai.workloads.weather import QUALITY

needs_mpirun = pytest.mark.skipif(mpirun() is None, reason="NO mpirun: FAULTS NOT PLANTED")

# One detector on two ranks: fault, and the checks that fail.
IN_A_GROUP = {
    "frames_left_out": {VALIDATION},
    "frames_delivered_twice": {VALIDATION},
    "frames_beyond_the_last": {VALIDATION},
    "frame_found_twice": {VALIDATION},
    "bit_flipped_after_training": {SAME, CHANGED, OTHERS},
    "gradient_of_a_rank_dropped": {DEVIATION, LOST},
}
# Two detectors, one rank each.
IN_AN_ENSEMBLE = {
    "detectors_identical": {APART},
    "frames_met_twice": {VALIDATION},
    "frames_delivered_twice_to_the_ensemble": {VALIDATION},
    "proposals_frozen": {DEVIATION, LOST, OPERATIONS, STALE},
    "sample_trained_twice": {SAMPLES},
    "model_diverges": {LOSS},
}
FAULTS = [*IN_A_GROUP, *IN_AN_ENSEMBLE]
FOUND_BY = [*IN_A_GROUP.values(), *IN_AN_ENSEMBLE.values()]


@pytest.fixture(scope="module")
def faulty(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return sweep(tmp_path_factory.mktemp("faulty"), IN_A_GROUP, IN_AN_ENSEMBLE, kind=WeatherRun)


@pytest.mark.slow
@needs_mpirun
@pytest.mark.parametrize("index", range(len(FAULTS)), ids=lambda index: f"{index + 1}-{FAULTS[index]}")
def test_fault_is_detected_by_its_check_and_no_other(faulty: Run, index: int) -> None:
    holds(faulty, index, FOUND_BY[index])


@pytest.mark.slow
@needs_mpirun
def test_run_with_faults_exits_with_1(faulty: Run) -> None:
    assert (faulty.job.returncode, faulty.job.leftovers) == (1, [])


def test_only_identical_detections_agree_exactly() -> None:
    random = np.random.default_rng(1)
    scores, corners = random.random((50, 40)), random.random((50, 40, 2)).cumsum(1)
    tables = np.dstack([corners, corners + 1.5, scores, np.zeros_like(scores)]).astype(np.float32)
    assert sum(agreement(table, table.copy()) for table in tables) == 50
    assert all(0.9 < agreement(table, table[:-1]) < 1 for table in tables)


def seen(frames: int) -> tuple[float, list[int], float]:
    """The precision of a detector that is shown the boxes, how many there are of each class, and the ceiling."""
    data = catalog.open_weather("generated", 6 * frames, classes=2, resolution=48)
    boxes = targets(data.validation.boxes(np.arange(frames)), data.classes)
    shown = [np.insert(each[each[:, 4] >= 0], 4, 1.0, axis=1) for each in boxes]
    matches = matched(range(frames), shown, boxes, 0.5, 2)
    assert data.ceiling is not None
    return float(average_precision(matches).mean()), matches.truths.tolist(), data.ceiling


@pytest.mark.parametrize(("frames", "verdict"), [(48, "PASSED"), (160, "FAILED")])
def test_a_detector_that_is_shown_the_boxes_exceeds_the_ceiling_with_enough_boxes(
    frames: int, verdict: str
) -> None:
    reached, boxes, ceiling = seen(frames)
    dataset = replace(stored("weather")[0].entry.raw.dataset, ceiling=ceiling, validation_samples=frames)
    changes = {
        "dataset": plain(dataset),
        "ensemble.true_boxes": boxes,
        "ensemble.precision": [reached, reached],
        "members": dict.fromkeys(("sum", "min", "max", "best"), reached),
    }
    alterations = (changed(f"raw.{path}", value) for path, value in changes.items())
    entry = rebuilt(stored("weather")[1], *alterations).entry
    (found,) = (check for check in entry.checks if check.name == CEILING.name)
    assert reached == pytest.approx(1.0)
    assert (found.verdict, found.value > MOST_ABOVE) == (verdict, verdict == "FAILED")
    assert leak(QUALITY, dataset, ceiling, sum(boxes)).verdict == "PASSED"
