"""Faults in what a network computes, and in its initial weights, are found by the run before the first step."""

from collections.abc import Callable

import pytest
from fault_runs import NETWORK, OPERATIONS, WEIGHTS, Run, Sweeps, holds

IN_A_GROUP = {
    "none": set(),
    "relu_left_out": {NETWORK},
    "epsilon_of_batch_norm": {NETWORK},
    "initial_weights_halved": {WEIGHTS},
    "head_without_bias": {NETWORK},
    "borders_repeated": {NETWORK},
}
IN_AN_ENSEMBLE = {
    "shortcut_left_out": {NETWORK},
    "block_of_a_stage_twice": {NETWORK, WEIGHTS, OPERATIONS},
    "momentum_of_running_statistics": {NETWORK},
    "none": set(),
    "initial_weights_uniform": {WEIGHTS},
    "scales_of_batch_norm_halved": {WEIGHTS},
}
SWEEPS = Sweeps(IN_A_GROUP, IN_AN_ENSEMBLE, 3, "BATCH=4", "KERNELS=vendor", "NETWORK=resnet8")


runs = SWEEPS.fixture()


@pytest.mark.parametrize(("part", "index", "fault", "checks"), SWEEPS.cases())
def test_a_fault_is_found_by_its_check(
    runs: Callable[[int], Run], part: int, index: int, fault: str, checks: set[str]
) -> None:
    holds(runs(part), index, checks)
