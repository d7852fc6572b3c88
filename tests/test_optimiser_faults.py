"""Faults of optimisers planted into the real program: replayed steps detect each, and no other check fails.

Half of them are in one model on two ranks, half in two models.
"""

from collections.abc import Callable
from functools import cache

import pytest
from fault_runs import DEVIATION, LOST, STILL, FoundBy, Run, holds, sweep
from launch import mpirun
from optimiser_changes import FAULTS
from sampled_parameters import slow

pytestmark = pytest.mark.skipif(mpirun() is None, reason="NO mpirun: FAULTS NOT PLANTED")

REPLAYED = {DEVIATION, LOST}  # which of the two depends on the term and its size
IN_CI = ("adamw",)  # of which all faults are in one job
OF_LARS = ("SCALING=none", "TRUST=0.02")


def grids(optimiser: str) -> list[FoundBy]:
    """No fault, then the faults of each grid; a sweep has equally many for both."""
    faults = [*FAULTS[optimiser]]
    first, second = faults[::2], faults[1::2]
    second += first[: len(first) - len(second)]
    return [{"none": set(), **dict.fromkeys(half, REPLAYED)} for half in (first, second)]


CASES = [
    (optimiser, index, fault, checks)
    for optimiser in FAULTS
    for index, (fault, checks) in enumerate([*grids(optimiser)[0].items(), *grids(optimiser)[1].items()])
]


@pytest.fixture(scope="module")
def faulty(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Run]:
    def run(optimiser: str) -> Run:
        settings = [f"OPTIMISER={optimiser}", "DECAY=0.01", *(OF_LARS if optimiser == "lars" else ())]
        return sweep(tmp_path_factory.mktemp(optimiser), *grids(optimiser), *settings)

    return cache(run)


@pytest.mark.parametrize(
    ("optimiser", "index", "fault", "checks"), slow([case for case in CASES if case[0] in IN_CI], CASES)
)
def test_a_fault_of_an_optimiser_is_detected_in_the_program(
    faulty: Callable[[str], Run], optimiser: str, index: int, fault: str, checks: set[str]
) -> None:
    holds(faulty(optimiser), index, checks, perhaps=checks and checks | {STILL})
    values = {check["name"]: check["verdict"] for check in faulty(optimiser).result["tests"][index]["checks"]}
    assert ("FAILED" in {values[name] for name in REPLAYED}) == bool(checks)
