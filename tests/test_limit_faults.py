"""Trainings faster than their processor can be, planted into the real program: FAILED, with both figures."""

import re
from pathlib import Path

import pytest
from fault_runs import BOUND, CLAIMS, Run, WeatherRun, sweep
from launch import mpirun

from hpcai.formulas.processor_units import units_of
from hpcai.machine.processor_identity import identity
from hpcai.verification import verify

FOUND = identity()
pytestmark = [
    pytest.mark.skipif(mpirun() is None, reason="NO mpirun: FAULTS NOT PLANTED"),
    pytest.mark.skipif(FOUND is None or units_of(*FOUND) is None, reason="UNKNOWN PROCESSOR: NO BOUND OF ITS RATES"),
]
IN_A_GROUP = {"none": {"PASSED"}, "time_divided_by_1000": {"FAILED"}, "cycles_not_computed": {"FAILED"}}
IN_AN_ENSEMBLE = {
    "none": {"PASSED"}, "time_divided_by_100000": {"FAILED"}, "processor_not_in_the_table": {"NOT CHECKED"},
}  # fmt: skip
FAULTS = [*IN_A_GROUP, *IN_AN_ENSEMBLE]
VERDICTS = [verdict for grid in (IN_A_GROUP, IN_AN_ENSEMBLE) for (verdict,) in grid.values()]


def holds(run: Run) -> None:
    """Assert the verdict of each test, and that a test that FAILED did so by its bound alone, with both figures."""
    assert run.bounds == VERDICTS
    for row, bound, test in zip(run.rows, run.bounds, run.result["tests"], strict=True):
        others = {name: verdict for name, verdict in row.items() if name != CLAIMS}
        assert {*others.values()} == {"PASSED"}
        assert test["verdict"] == ("FAILED" if bound == "FAILED" else "PASSED")
        assert (test["scores"]["rank_bound"] is None) == (bound == "NOT CHECKED")
    (path,) = run.folder.glob("results/*/result.json")
    assert verify.differences(path) == []


@pytest.mark.slow
def test_trainings_of_classifiers_that_are_too_fast_fail(tmp_path: Path) -> None:
    run = sweep(tmp_path, IN_A_GROUP, IN_AN_ENSEMBLE)
    holds(run)
    failed = run.result["tests"][1]
    rate, most = failed["scores"]["roofline"]["rate"], failed["scores"]["rank_bound"]
    (check,) = (each for each in failed["checks"] if each["name"] == BOUND)
    assert check["value"] == pytest.approx(rate / most) and check["value"] > 1
    shown = re.findall(r"bound of a rank's processor, GFLOP/s *= +(\S+)", run.job.stdout)
    assert shown[1] == f"{most / 1e9:.7f}"


@pytest.mark.exhaustive
def test_trainings_of_detectors_that_are_too_fast_fail(tmp_path: Path) -> None:
    holds(sweep(tmp_path, IN_A_GROUP, IN_AN_ENSEMBLE, kind=WeatherRun))
