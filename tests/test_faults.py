"""Faults planted into the real program, one a test of a sweep: each is detected by the check for it.

The other checks of the row stay PASSED, so each fault is also distinguished from others. The replayed step of this seed
is the third of five in the group, the fifth of ten in the ensemble; so a fault that begins with the third is repeated,
and one in the first step alone must be detected otherwise.
"""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from fault_runs import (
    ACCOUNTED,
    APART,
    BESIDE,
    CHANGED,
    CHECKS,
    CLAIMS,
    DELIVERED,
    DEVIATION,
    ELEMENTWISE,
    EVALUATED,
    LOSS,
    LOST,
    NETWORK,
    OF_CONTENT,
    OPERATIONS,
    ORDER,
    OTHERS,
    OUTSIDE,
    RECIPE,
    RECOUNTED,
    RESIDUAL,
    SAME,
    SAMPLES,
    SUMS,
    VALIDATION,
    WALL,
    WEIGHTS,
    Run,
    Sweeps,
    holds,
)
from launch import BENCH, mpirun

pytestmark = pytest.mark.skipif(mpirun() is None, reason="NO mpirun: FAULTS NOT PLANTED")

# One model on two ranks: fault, and the checks that fail. The first of each grid have one of each check.
IN_A_GROUP = {
    "none": set(),
    "contribution_dropped": {SUMS, DEVIATION, LOST},
    "parameter_off_by_one_bit": {SAME, CHANGED, OTHERS},
    "step_left_out": {OPERATIONS, OUTSIDE},
    "batch_delivered_twice": {VALIDATION},
    "product_not_a_number": {RESIDUAL, ELEMENTWISE, NETWORK, LOSS},
    "loading_not_summed_over_ranks": {CLAIMS},
    "gradient_of_a_rank_dropped": {DEVIATION, LOST},
    "sample_trained_twice": {SAMPLES},
    "stale_weights": {SAME, DEVIATION, LOST},
    "rate_one_percent_too_high": {DEVIATION},
    "first_element_lost": {SUMS, SAME},
    "last_element_lost": {SUMS, SAME},
    "mpi_sum_wrong": {SUMS},
    "gradients_not_averaged": {SAME, DEVIATION, LOST},
    "statistics_not_averaged": {SAME},
    "step_without_backward": {OPERATIONS, OUTSIDE},
    "step_on_half_a_batch": {OPERATIONS},
    "layer_skipped": {NETWORK, OPERATIONS},
    "gradient_of_a_layer_dropped": {DEVIATION, LOST},
    "gradient_of_a_layer_dropped_by_a_rank": {DEVIATION, LOST},
    "gradients_summed": {DEVIATION, LOST},
    "shard_of_another_rank": {SAMPLES, DEVIATION, LOST},
    "stale_gradients": {DEVIATION},
    "bit_flipped_after_training": {SAME, CHANGED, OTHERS},
    "convolutions_not_updated": {DEVIATION, LOST},
    "batch_of_another_size": {RECIPE, ORDER, DELIVERED},
}
# Two models, one rank each.
IN_AN_ENSEMBLE = {
    "none": set(),
    "step_left_out_by_one_model": {OPERATIONS, OUTSIDE},
    "model_diverges": {LOSS},
    "sample_evaluated_twice": {VALIDATION},
    "element_of_product_wrong": {ELEMENTWISE, NETWORK},
    "models_identical": {APART, RECOUNTED},
    "loading_counted_twice": {CLAIMS},
    "bit_flipped_between_epochs": {CHANGED},
    "decay_forgotten": {LOST},
    "smoothing_forgotten": {DEVIATION},
    "momentum_ten_percent_too_small": {DEVIATION},
    "last_batch_credited_in_full": {OPERATIONS},
    "batch_not_asked_for": {VALIDATION},
    "batch_lost": {VALIDATION},
    "batch_delivered_twice": {VALIDATION},
    "sample_evaluated_twice_by_the_ensemble": {VALIDATION},
    "batch_delivered_twice_to_the_ensemble": {VALIDATION},
    "product_wrong": {RESIDUAL, ELEMENTWISE, NETWORK},
    "element_of_weight_gradient_lost": {RESIDUAL, ELEMENTWISE},
    "first_batch_again_and_again": {SAMPLES, DEVIATION, LOST},
    "sample_trained_twice": {SAMPLES},
    "stale_weights": {DEVIATION, LOST},
    "bit_flipped_after_training": {CHANGED, OTHERS},
    "statistic_changed_between_epochs": {CHANGED},
    "bit_flipped_in_a_step": {DEVIATION},
    "momentum_forgotten": {DEVIATION, LOST},
    "model_trained_on_all_samples": {ORDER, DELIVERED},
}
PERHAPS = {"first_element_lost": {DEVIATION, LOST}, "last_element_lost": {DEVIATION, LOST}}  # by its size
# Wrong gradients or factors are detected otherwise.
PERHAPS |= {name: {LOST} for name in ("stale_gradients", "smoothing_forgotten", "momentum_ten_percent_too_small")}
CHANGE_COUNTS = {VALIDATION, OTHERS, ORDER}  # samples evaluated twice, other weights in one of two passes, other bags
SWEEPS = Sweeps(IN_A_GROUP, IN_AN_ENSEMBLE, 11, "DECAY=0.0005")


faulty = SWEEPS.fixture()


@pytest.mark.parametrize(("part", "index", "fault", "checks"), SWEEPS.cases())
def test_fault_is_detected_by_its_check_and_no_other(
    faulty: Callable[[int], Run], part: int, index: int, fault: str, checks: set[str]
) -> None:
    counts = {RECOUNTED} - checks if checks & CHANGE_COUNTS else set()
    holds(faulty(part), index, checks, PERHAPS.get(fault, set()) | counts)


@pytest.mark.slow
def test_run_with_faults_counts_them_and_exits_with_1(faulty: Callable[[int], Run]) -> None:
    job, found_by = faulty(0).job, [checks for grid in SWEEPS.parts[0] for checks in grid.values()]
    failed = sum(map(bool, found_by))
    assert job.returncode == 1
    assert f"Finished {len(found_by):6d} tests with the following results:\n" in job.stdout
    assert f"\n         {len(found_by) - failed:6d} tests completed and passed residual checks,\n" in job.stdout
    assert f"\n         {failed:6d} tests completed and failed residual checks,\n" in job.stdout
    final = next(line for line in job.stdout.splitlines() if line.startswith("Final Summary::"))
    assert "INVALID" in final and "checks FAILED" in final
    assert not job.leftovers


@pytest.mark.slow
def test_the_report_names_the_place_of_the_worst_step(faulty: Callable[[int], Run]) -> None:
    test = SWEEPS.number("gradient_of_a_rank_dropped")
    dropped = faulty(0).result["tests"][test - 1]["raw"]["replay"]
    assert dropped["steps"] == 1
    assert dropped["lost"]["where"].startswith("model 0, epoch 1, step 3: gradient of ")
    assert f"Replay  : 1 steps, largest lost: {dropped['lost']['where']}\n" in faulty(0).job.stdout


@pytest.mark.slow
def test_each_violated_claim_is_named(faulty: Callable[[int], Run]) -> None:
    named = re.findall(r"^hpcai: test (\d+): does not hold: (.+)$", faulty(0).job.stderr, re.MULTILINE)
    by_claims = ("loading_not_summed_over_ranks", "loading_counted_twice")
    summed, counted = (str(SWEEPS.number(fault)) for fault in by_claims)
    assert {test for test, _ in named} == {summed, counted}


def test_every_check_has_a_fault() -> None:
    found = set().union(*(checks for grid in SWEEPS.parts[0] for checks in grid.values()))
    # in test_content_faults.py, test_step_faults.py and test_network_faults.py
    elsewhere = {*OF_CONTENT, *BESIDE, EVALUATED, WEIGHTS, ACCOUNTED, WALL}
    assert found - elsewhere == (CHECKS | {APART}) - elsewhere


@pytest.mark.exhaustive
def test_the_same_input_without_a_fault_passes(tmp_path: Path) -> None:
    run = Run(tmp_path, [BENCH], ["LEARNRATE=0.05"])
    assert run.job.returncode == 0, run.job.stdout
    assert [set(row.values()) for row in run.rows] == [{"PASSED"}, {"PASSED"}]
    assert "\n              0 tests completed and failed residual checks,\n" in run.job.stdout
    assert "Final Summary::HPCAI result is UNOFFICIAL" in run.job.stdout


@pytest.mark.slow
def test_one_test_that_diverges_fails_and_the_others_still_run(tmp_path: Path) -> None:
    run = Run(tmp_path, [BENCH], ["LEARNRATE=0.05,1e9,0.06", "EPOCHS=2"])
    assert run.job.returncode == 1
    assert len(run.rows) == 6
    for row, test in zip(run.rows, run.result["tests"], strict=True):
        diverged = test["settings"]["LEARNRATE"] == 1e9
        assert row.pop(LOSS) == ("FAILED" if diverged else "PASSED")
        assert row[CLAIMS] == ("NOT CHECKED" if diverged else "PASSED")
        assert diverged or set(row.values()) == {"PASSED"}
        assert test["raw"]["work"]["diverged_models"] == diverged * test["p"]
    assert "does not hold" not in run.job.stderr


@pytest.mark.exhaustive
def test_divergence_in_the_last_step_is_detected(tmp_path: Path) -> None:
    run = Run(tmp_path, [BENCH], ["LEARNRATE=1e30", "SAMPLES=16", "SCHEDULE=constant", "GROUPS=1", "DEGREE=2"])
    assert run.job.returncode == 1
    assert run.rows[0][LOSS] == "FAILED"
    assert run.result["tests"][0]["raw"]["work"]["steps"] == 1
