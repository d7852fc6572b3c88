"""Faults in what arrives at the networks and in their recipe, one a test of a sweep: each is found by the run.

They are consistent: loader, account and replay share them, so that only a second implementation can see them.
"""

from collections.abc import Callable
from pathlib import Path

import pytest
from fault_runs import DELIVERED, OF_CONTENT, ORDER, RECIPE, RECOUNTED, SEEN, SHARED, VALIDATION, Run, Sweeps, holds
from launch import ROOT, mpirun, run_job

pytestmark = pytest.mark.skipif(mpirun() is None, reason="NO mpirun: FAULTS NOT PLANTED")

# One model on two ranks.
IN_A_GROUP = {
    "none": set(),
    "validation_images_in_training": {DELIVERED},
    "labels_shifted": {DELIVERED},
    "mean_wrong": {DELIVERED},
    "images_shifted_by_a_pixel": {DELIVERED},
    "order_of_another_seed": {ORDER, DELIVERED},
    "half_a_batch_twice": {ORDER, DELIVERED, VALIDATION},
    "last_validation_on_half_of_the_samples": {SEEN},
    "decay_of_zero": {RECIPE},
    "smoothing_of_zero": {RECIPE},
    "rate_not_scaled": {RECIPE},
    "validation_on_training_images": {DELIVERED},
}
# Two models, one rank each.
IN_AN_ENSEMBLE = {
    "every_tenth_image_of_validation": {DELIVERED},
    "data_opened_with_validation_in_training": {DELIVERED, SHARED},
    "labels_of_the_next_sample": {DELIVERED},
    "deviation_wrong": {DELIVERED},
    "images_mirrored": {DELIVERED},
    "images_resized_by_nearest": {DELIVERED},
    "same_order_in_every_epoch": {ORDER, DELIVERED},
    "bootstrap_of_another_model": {ORDER, DELIVERED, RECOUNTED},
    "half_a_batch_twice_with_the_indices_of_all": {DELIVERED},
    "schedule_of_another_kind": {RECIPE},
    "momentum_of_a_half": {RECIPE},
    "warm_up_of_an_epoch": {RECIPE},
}
PERHAPS = {"last_validation_on_half_of_the_samples": {DELIVERED}}  # if a sample was drawn that was left out
# Other samples or labels than those of the indices may change how many are correct.
CHANGE_COUNTS = (
    *("last_validation_on_half_of_the_samples", "validation_on_training_images", "half_a_batch_twice"),
    *("half_a_batch_twice_with_the_indices_of_all", "labels_shifted", "labels_of_the_next_sample"),
)
SWEEPS = Sweeps(IN_A_GROUP, IN_AN_ENSEMBLE, 6, "DECAY=0.0005", "EPOCHS=2")


faulty = SWEEPS.fixture()


@pytest.mark.parametrize(("part", "index", "fault", "checks"), SWEEPS.cases())
def test_fault_is_found_by_its_check_and_no_other(
    faulty: Callable[[int], Run], part: int, index: int, fault: str, checks: set[str]
) -> None:
    counts = {RECOUNTED} if fault in CHANGE_COUNTS else set()
    holds(faulty(part), index, checks, PERHAPS.get(fault, set()) | counts)


def test_every_check_of_content_has_a_fault() -> None:
    found = set().union(*(checks for grid in (IN_A_GROUP, IN_AN_ENSEMBLE) for checks in grid.values()))
    assert found >= {*OF_CONTENT}


@pytest.mark.exhaustive
def test_a_generator_of_other_numbers_refuses_the_run(tmp_path: Path) -> None:
    job = run_job([ROOT / "tests/jobs/nine_rounds.py", ROOT / "inputs/smoke.dat"], 2, tmp_path, timeout=120)
    assert job.returncode == 3
    assert ": the generator of philox4x32-10 gives" in job.stderr and "its known answer" in job.stderr
    assert "T/V" not in job.stdout and not job.leftovers
