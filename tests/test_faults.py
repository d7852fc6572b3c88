"""Faults planted into the real program, one a test of a sweep: each is found by the check that is there for it.

The other checks of the row stay PASSED, so a fault is also told from others.
"""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from idx_files import FILES, idx
from launch import BENCH, ROOT, Finished, mpirun, run_job

from hpcai.data import catalog
from hpcai.result.checks import CEILING

pytestmark = pytest.mark.skipif(mpirun() is None, reason="NO mpirun: FAULTS NOT PLANTED")

RESIDUAL = "||Ax-b||_oo/(eps*(||A||_oo*||x||_oo+||b||_oo)*N)"
ELEMENTWISE = "max|C-L*R|/(8*sqrt(N)*u*sqrt((LoL)*(RoR)))"
SUMS = "all-reduce of integers: wrong elements"
SAME = "parameters and statistics: differing ranks"
LOSS = "loss not finite: models"
OPERATIONS = "operations credited, not executed: samples"
VALIDATION = "validation samples not judged exactly once"
APART = "pairwise disagreement of models, not 0"
CHECKS = {RESIDUAL, ELEMENTWISE, SUMS, SAME, LOSS, OPERATIONS, VALIDATION}

# One model on two ranks: fault, and the checks that fail.
IN_A_GROUP = {
    "none": set(),
    "contribution_dropped": {SUMS},
    "first_element_lost": {SUMS},
    "last_element_lost": {SUMS},
    "mpi_sum_wrong": {SUMS},
    "parameter_off_by_one_bit": {SAME},
    "gradients_not_averaged": {SAME},
    "statistics_not_averaged": {SAME},
    "step_left_out": {OPERATIONS},
    "step_without_backward": {OPERATIONS},
    "step_on_half_a_batch": {OPERATIONS},
    "layer_skipped": {OPERATIONS},
    "batch_delivered_twice": {VALIDATION},
    "product_not_a_number": {RESIDUAL, ELEMENTWISE, LOSS},
}
# Two models, one rank each.
IN_AN_ENSEMBLE = {
    "none": set(),
    "step_left_out_by_one_model": {OPERATIONS},
    "last_batch_credited_in_full": {OPERATIONS},
    "model_diverges": {LOSS},
    "sample_judged_twice": {VALIDATION},
    "batch_not_asked_for": {VALIDATION},
    "batch_lost": {VALIDATION},
    "batch_delivered_twice": {VALIDATION},
    "sample_judged_twice_by_the_ensemble": {VALIDATION},
    "batch_delivered_twice_to_the_ensemble": {VALIDATION},
    "element_of_product_wrong": {ELEMENTWISE},
    "product_wrong": {RESIDUAL, ELEMENTWISE},
    "element_of_weight_gradient_lost": {RESIDUAL, ELEMENTWISE},
    "models_identical": {APART},
}
FAULTS = [*IN_A_GROUP, *IN_AN_ENSEMBLE]
FOUND_BY = [*IN_A_GROUP.values(), *IN_AN_ENSEMBLE.values()]
RATES = " ".join(f"0.{number:03d}" for number in range(50, 50 + len(IN_A_GROUP)))

INPUT = f"""\
Small real pictures, two grids
Each learning rate is a test of its own
[ensemble]
fashion:pictures  DATASET
1 2               GROUPS
2 1               DEGREE
8                 BATCH      no divisor of either shard: the last batch is a partial one
8                 RESOLUTION
1                 EPOCHS
0                 WARMUP
{RATES}           LEARNRATE
"""


def write_pictures(folder: Path) -> None:
    """A few real pictures in files of the published format."""
    dataset = catalog.open_dataset("fashion")
    folder.mkdir()
    for (images, labels), split, n in zip(FILES.values(), (dataset.train, dataset.validation), (76, 50), strict=True):
        few = np.arange(n)
        (folder / images).write_bytes(idx(split.images(few)[:, 0]))
        (folder / labels).write_bytes(idx(split.labels(few).astype(np.uint8)))


class Run:
    """A finished run of INPUT: the job, and what it says of each test."""

    def __init__(self, folder: Path, program: list[Any], settings: list[str]) -> None:
        write_pictures(folder / "pictures")
        (folder / "input.dat").write_text(INPUT)
        self.job: Finished = run_job([*program, "--set", "SEED=1", *settings], 2, folder)
        assert "End of Tests." in self.job.stdout, self.job.stdout + self.job.stderr
        self.result = json.loads(next(folder.glob("results/*/result.json")).read_text())
        self.rows = [self._checks(part) for part in self.job.stdout.split("\nT/V                N")[1:]]

    @staticmethod
    def _checks(part: str) -> dict[str, str]:
        """Verdict by check, of the report's lines below one row."""
        lines = re.findall(r"^ *(\S.*)= +(?:\d+\.\d{7}|n/a, .*) \.{6} (\w+(?: \w+)*)$", part, re.MULTILINE)
        checks = {name: verdict for name, verdict in lines if name != "quality(top1)/target"}
        assert checks.pop(CEILING) == "NOT CHECKED"  # of real pictures; test_leak.py has generated ones
        return checks


@pytest.fixture(scope="module")
def faulty(tmp_path_factory: pytest.TempPathFactory) -> Run:
    program = [ROOT / "tests" / "jobs" / "faulty.py", ",".join(FAULTS)]
    return Run(tmp_path_factory.mktemp("faulty"), program, [])


@pytest.mark.parametrize("index", range(len(FAULTS)), ids=lambda index: f"{index + 1}-{FAULTS[index]}")
def test_fault_is_found_by_its_check_and_no_other(faulty: Run, index: int) -> None:
    row, test = faulty.rows[index], faulty.result["tests"][index]
    assert set(row) == CHECKS | ({APART} if test["p"] > 1 else set())
    assert set(row.values()) <= {"PASSED", "FAILED"}
    assert {name for name, verdict in row.items() if verdict == "FAILED"} == FOUND_BY[index]
    assert {check["name"]: check["verdict"] for check in test["checks"]} == {**row, CEILING: "NOT CHECKED"}
    assert test["verdict"] == ("FAILED" if FOUND_BY[index] else "PASSED")
    assert test["status"] == ("INVALID" if FOUND_BY[index] else "UNOFFICIAL")


def test_run_with_faults_counts_them_and_exits_with_1(faulty: Run) -> None:
    failed = sum(map(bool, FOUND_BY))
    assert faulty.job.returncode == 1
    assert f"Finished {len(FAULTS):6d} tests with the following results:\n" in faulty.job.stdout
    assert f"\n         {len(FAULTS) - failed:6d} tests completed and passed residual checks,\n" in faulty.job.stdout
    assert f"\n         {failed:6d} tests completed and failed residual checks,\n" in faulty.job.stdout
    final = next(line for line in faulty.job.stdout.splitlines() if line.startswith("Final Summary::"))
    assert "INVALID" in final and "checks FAILED" in final
    assert not faulty.job.leftovers


def test_every_check_has_a_fault() -> None:
    assert len(IN_A_GROUP) == len(IN_AN_ENSEMBLE)  # the sweep has as many learning rates for one grid as for the other
    assert set().union(*FOUND_BY) == CHECKS | {APART}


def test_the_same_input_without_a_fault_passes(tmp_path: Path) -> None:
    run = Run(tmp_path, [BENCH], ["LEARNRATE=0.05"])
    assert run.job.returncode == 0, run.job.stdout
    assert [set(row.values()) for row in run.rows] == [{"PASSED"}, {"PASSED"}]
    assert "\n              0 tests completed and failed residual checks,\n" in run.job.stdout
    assert "Final Summary::HPCAI result is UNOFFICIAL" in run.job.stdout


def test_one_test_that_diverges_fails_and_the_others_still_run(tmp_path: Path) -> None:
    run = Run(tmp_path, [BENCH], ["LEARNRATE=0.05,1e9,0.06", "EPOCHS=2"])
    assert run.job.returncode == 1
    assert len(run.rows) == 6
    for row, test in zip(run.rows, run.result["tests"], strict=True):
        diverged = test["settings"]["LEARNRATE"] == 1e9
        assert row.pop(LOSS) == ("FAILED" if diverged else "PASSED")
        assert diverged or set(row.values()) == {"PASSED"}
        assert test["raw"]["diverged_models"] == diverged * test["p"]


def test_divergence_in_the_last_step_is_seen(tmp_path: Path) -> None:
    run = Run(tmp_path, [BENCH], ["LEARNRATE=1e30", "SAMPLES=16", "SCHEDULE=constant", "GROUPS=1", "DEGREE=2"])
    assert run.job.returncode == 1
    assert run.rows[0][LOSS] == "FAILED"
    assert run.result["tests"][0]["raw"]["steps"] == 1
