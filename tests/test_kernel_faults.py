"""Faults in the custom kernels, planted into the real program while they train: each row is FAILED by its checks."""

import pytest
from fault_runs import (
    DEVIATION,
    ELEMENTWISE,
    EVALUATED,
    GRADIENT,
    LOST,
    NETWORK,
    RESIDUAL,
    STATISTICS,
    CustomRun,
    holds,
    sweep,
)
from fault_runs import VENDOR_LOSS as LOSS
from launch import mpirun
from small_run import rebuilt

from hpcai.verification import verify

pytestmark = [pytest.mark.skipif(mpirun() is None, reason="NO mpirun: FAULTS NOT PLANTED"), pytest.mark.slow]

# One model on two ranks: fault, and the checks that fail.
IN_A_GROUP = {
    "none": set(),
    "last_channel_not_computed": {RESIDUAL, ELEMENTWISE, LOSS, GRADIENT, STATISTICS, NETWORK},
    "batch_norm_backward_lacks_a_term": {LOSS, GRADIENT},
    "statistics_not_kept": {LOSS, STATISTICS, DEVIATION},
    "nothing_added_in_evaluation": {LOSS, EVALUATED},
}
# Two models, one rank each.
IN_AN_ENSEMBLE = {
    "none": set(),
    "border_of_input_gradient_lost": {RESIDUAL, ELEMENTWISE, LOSS, GRADIENT},
    "tap_of_weight_gradient_lost": {RESIDUAL, ELEMENTWISE, LOSS, GRADIENT},
    "variance_not_that_of_a_sample": {LOSS, STATISTICS},
    "nothing_cut_off_in_evaluation": {LOSS, EVALUATED},
}
# Steps repeated by the vendor's kernels detect these as well, by one measure or both.
REPEATED = {
    "last_channel_not_computed", "batch_norm_backward_lacks_a_term", "border_of_input_gradient_lost",
    "tap_of_weight_gradient_lost",
}
FAULTS = [*IN_A_GROUP, *IN_AN_ENSEMBLE]
FOUND_BY = [*IN_A_GROUP.values(), *IN_AN_ENSEMBLE.values()]


@pytest.fixture(scope="module")
def faulty(tmp_path_factory: pytest.TempPathFactory) -> CustomRun:
    folder = tmp_path_factory.mktemp("faulty")
    run = sweep(folder, IN_A_GROUP, IN_AN_ENSEMBLE, "KERNELS=custom", kind=CustomRun)
    assert isinstance(run, CustomRun)
    return run


@pytest.mark.parametrize("index", range(len(FAULTS)), ids=lambda index: f"{index + 1}-{FAULTS[index]}")
def test_fault_of_a_kernel_is_detected_by_its_checks_and_no_other(faulty: CustomRun, index: int) -> None:
    holds(faulty, index, FOUND_BY[index], {DEVIATION, LOST} if FAULTS[index] in REPEATED else frozenset())


@pytest.mark.parametrize("fault", sorted(REPEATED))
def test_a_fault_of_gradients_is_detected_in_the_timed_region_as_well(faulty: CustomRun, fault: str) -> None:
    row = faulty.rows[FAULTS.index(fault)]
    assert "FAILED" in (row[DEVIATION], row[LOST])


def test_rows_name_the_provider_of_their_kernels(faulty: CustomRun) -> None:
    assert faulty.job.returncode == 1
    assert [test["tv"] for test in faulty.result["tests"]] == ["WR11S1C4"] * 5 + ["WR10S1C4"] * 5
    assert faulty.job.stdout.count("throughput by custom kernels / by the vendor's= ") == len(FAULTS)
    assert all(test["scores"]["custom_speed"] > 0 for test in faulty.result["tests"])


def test_the_result_of_the_real_program_is_verified(faulty: CustomRun) -> None:
    (path,) = faulty.folder.glob("results/*/result.json")
    assert verify.differences(path) == []
    assert rebuilt(faulty.result)["digest"] == faulty.result["digest"]
