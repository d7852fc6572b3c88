"""Faulty ranks in the timed region of the real program, one fault a test of a sweep: each is FAILED by its checks.

The replayed step of this seed is the third of five in the group, the fifth of ten in the ensemble; so a fault that
begins with the third is repeated, and one in the first step alone must be detected otherwise.
"""

from collections.abc import Callable

import pytest
from fault_runs import CHANGED, DEVIATION, LOST, SAME, SAMPLES, Run, Sweeps, holds
from launch import mpirun

pytestmark = pytest.mark.skipif(mpirun() is None, reason="NO mpirun: FAULTS NOT PLANTED")

# One model on two ranks: fault, and the checks that fail. The first of each grid have one of each check.
IN_A_GROUP = {
    "none": set(),
    "gradient_of_a_rank_dropped": {DEVIATION, LOST},
    "sample_trained_twice": {SAMPLES},
    "stale_weights": {SAME, DEVIATION, LOST},
    "rate_one_percent_too_high": {DEVIATION},
    "gradient_of_a_layer_dropped": {DEVIATION, LOST},
    "gradient_of_a_layer_dropped_by_a_rank": {DEVIATION, LOST},
    "gradients_summed": {DEVIATION, LOST},
    "shard_of_another_rank": {SAMPLES, DEVIATION, LOST},
    "stale_gradients": {DEVIATION},
    "bit_flipped_after_training": {SAME, CHANGED},
    "convolutions_not_updated": {DEVIATION, LOST},
}
# Two models, one rank each.
IN_AN_ENSEMBLE = {
    "none": set(),
    "bit_flipped_between_epochs": {CHANGED},
    "decay_forgotten": {LOST},
    "smoothing_forgotten": {DEVIATION},
    "momentum_ten_percent_too_small": {DEVIATION},
    "first_batch_again_and_again": {SAMPLES, DEVIATION, LOST},
    "sample_trained_twice": {SAMPLES},
    "stale_weights": {DEVIATION, LOST},
    "bit_flipped_after_training": {CHANGED},
    "statistic_changed_between_epochs": {CHANGED},
    "bit_flipped_in_a_step": {DEVIATION},
    "momentum_forgotten": {DEVIATION, LOST},
}
PERHAPS = {  # wrong gradients or factors are detected otherwise
    name: {LOST} for name in ("stale_gradients", "smoothing_forgotten", "momentum_ten_percent_too_small")
}
SWEEPS = Sweeps(IN_A_GROUP, IN_AN_ENSEMBLE, 5, "DECAY=0.0005")


@pytest.fixture(scope="module")
def faulty(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int], Run]:
    return SWEEPS.runs(tmp_path_factory)


@pytest.mark.parametrize(("part", "index", "fault", "checks"), SWEEPS.cases())
def test_fault_of_a_rank_is_detected_by_its_checks(
    faulty: Callable[[int], Run], part: int, index: int, fault: str, checks: set[str]
) -> None:
    holds(faulty(part), index, checks, PERHAPS.get(fault, frozenset()))


def test_run_with_faulty_ranks_exits_with_1(faulty: Callable[[int], Run]) -> None:
    assert faulty(0).job.returncode == 1
    assert not faulty(0).job.leftovers


def test_the_report_names_the_place_of_the_worst_step(faulty: Callable[[int], Run]) -> None:
    dropped = faulty(0).result["tests"][1]["raw"]["replay"]
    assert dropped["steps"] == 1
    assert dropped["lost"]["where"].startswith("model 0, epoch 1, step 3: gradient of ")
    assert f"Replay  : 1 steps, largest lost: {dropped['lost']['where']}\n" in faulty(0).job.stdout
