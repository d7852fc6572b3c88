"""Faults of clocks, of steps that nobody audits and of judged weights are found by the run, each by its check."""

from collections.abc import Callable

import pytest
from fault_runs import (
    ACCOUNTED,
    CHANGED,
    CLOCKS,
    DEVIATION,
    EVALUATED,
    LOST,
    OPERATIONS,
    OTHERS,
    OUTSIDE,
    RECOUNTED,
    STALE,
    STILL,
    Run,
    Sweeps,
    holds,
)

IN_A_GROUP = {
    "none": set(),
    "half_the_clock": {CLOCKS, ACCOUNTED},
    "old_gradients_unless_audited": {STALE},
    "no_update_unless_audited": {STILL},
    "first_weights_validated": {OTHERS},
    "a_step_outside_the_clock": {OUTSIDE, OPERATIONS},
    "one_layer_with_old_gradients": {STALE},
    "weights_swapped_while_validated": {OTHERS},
    "every_sample_counted_as_correct": {RECOUNTED},
    "trained_before_the_clock": {CHANGED},
    "step_times_tenfold": {CLOCKS},
    "run_reports_more_than_counted": {RECOUNTED},
}
IN_AN_ENSEMBLE = {
    "ensemble_of_other_weights": {OTHERS},
    "a_phase_in_half": {CLOCKS, ACCOUNTED},
    "a_backward_pass_outside_the_clock": {OUTSIDE},
    "statistics_without_momentum": {DEVIATION},
    "no_backward_pass_in_every_second_step": {STALE, OPERATIONS},
    "none": set(),
    "one_layer_with_old_gradients": {STALE},
    "old_gradients_unless_audited": {STALE},
    "every_sample_counted_as_correct": {RECOUNTED},
    "trained_before_the_clock": {CHANGED},
    "step_times_tenfold": {CLOCKS},
    "least_likely_class_predicted": {EVALUATED},
}
SWEEPS = Sweeps(IN_A_GROUP, IN_AN_ENSEMBLE, 5, "BATCH=4", "KERNELS=vendor")
# Where the fault meets an audited step, or changes how many samples are correct.
PERHAPS = {DEVIATION, LOST, EVALUATED, RECOUNTED}


runs = SWEEPS.fixture()


@pytest.mark.parametrize(("part", "index", "fault", "checks"), SWEEPS.cases())
def test_a_fault_is_found_by_its_check(
    runs: Callable[[int], Run], part: int, index: int, fault: str, checks: set[str]
) -> None:
    holds(runs(part), index, checks, PERHAPS - checks if checks else frozenset())
