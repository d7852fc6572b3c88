"""Faults in the figures of an ensemble are found by the run, which counts them anew from the kept predictions."""

from collections.abc import Callable

import pytest
from fault_runs import RECOUNTED, Run, Sweeps, holds
from launch import mpirun

pytestmark = pytest.mark.skipif(mpirun() is None, reason="NO mpirun: FAULTS NOT PLANTED")

IN_A_GROUP = {
    "none": set(),
    "ensemble_counts_more_correct": {RECOUNTED},
    "members_counted_more": {RECOUNTED},
    "run_reports_more_than_counted": {RECOUNTED},
}
IN_AN_ENSEMBLE = {
    "vote_counted_twice": {RECOUNTED},
    "disagreement_doubled": {RECOUNTED},
    "out_of_bag_in_the_bag": {RECOUNTED},
    "none": set(),
}
SWEEPS = Sweeps(IN_A_GROUP, IN_AN_ENSEMBLE, 4, "BATCH=4")


runs = SWEEPS.fixture()


@pytest.mark.parametrize(("part", "index", "fault", "checks"), SWEEPS.cases())
def test_a_fault_is_found_by_its_check_and_no_other(
    runs: Callable[[int], Run], part: int, index: int, fault: str, checks: set[str]
) -> None:
    holds(runs(part), index, checks)
