"""Searches that do not reach their end: a killed rank ends the job, and returned trials are kept."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from job_folder import INPUT, START, prepared
from launch import ROOT, mpirun, run_job

from hpcai.report import checksums
from hpcai.search import journal
from hpcai.verification import verify

FAILING = ROOT / "tests" / "jobs" / "failing.py"
SEARCH = INPUT.replace("[ensemble]", "[nas]") + "100 ROUNDS\n"

pytestmark = pytest.mark.skipif(mpirun() is None, reason="NO mpirun: ENDS OF SEARCHES NOT TESTED")


def failing(folder: Path, how: str, rank: int = 1, place: str = "trying", count: int = 5) -> Any:
    """A search of which a rank fails the given time that it reaches a place, usually in its fifth trial."""
    prepared(folder)
    (folder / "input.dat").write_text(SEARCH)
    job = run_job(
        [FAILING, str(rank), place, str(count), how, "--set", "GROUPS=2", "DEGREE=1"],
        2,
        folder,
        START,
        {"OMP_NUM_THREADS": "1"},
    )
    assert job.leftovers == [] and (folder / "failed").exists()
    return job


@pytest.mark.slow
@pytest.mark.parametrize("how", ["kill", pytest.param("exit-0", marks=pytest.mark.exhaustive)])
def test_a_rank_that_dies_ends_the_search_and_the_history_is_kept(tmp_path: Path, how: str) -> None:
    job = failing(tmp_path, how)
    assert job.returncode not in (0, None) and "End of Tests." not in job.stdout
    (path,) = tmp_path.glob("results/*/search-1/history.jsonl")
    trials = list(journal.read(path))
    assert len(trials) >= 4
    assert {trial.worker for trial in trials} == {0, 1}
    assert max(trial.round for trial in trials if trial.worker == 1) <= 4


@pytest.mark.slow
@pytest.mark.parametrize("rank", [0, pytest.param(1, marks=pytest.mark.exhaustive)])
def test_a_search_that_is_killed_at_its_first_weights_is_named_in_the_folder(tmp_path: Path, rank: int) -> None:
    """Its weights may have no line in the history yet, and result.json knows nothing of the search."""
    job = failing(tmp_path, "kill", rank, "keeping", 1)
    (made,) = (tmp_path / "results").iterdir()
    _, what, test, resume = (made / checksums.BROKEN_OFF).read_text().splitlines()
    assert re.search(rf"what: rank {rank} on .* in test 1 \(nas\), .*", what) and what[6:] in job.stderr
    assert (test, resume) == ("test: 1 (nas) was not finished", f"resume: bench.py --resume {made}")


@pytest.mark.exhaustive
@pytest.mark.parametrize(("rank", "place"), [(0, "noting"), (1, "keeping")])
def test_a_failed_record_ends_the_search_and_not_only_a_trial(tmp_path: Path, rank: int, place: str) -> None:
    job = failing(tmp_path, "raise", rank, place, 3)
    assert job.returncode == 3 and "leaves the search" not in job.stderr
    assert f"rank {rank} on" in job.stderr and "a fault of this rank" in job.stderr


@pytest.mark.exhaustive
def test_a_signal_to_one_rank_ends_the_search_with_its_trials(tmp_path: Path) -> None:
    job = failing(tmp_path, "terminate")
    assert job.returncode == 3 and "by SIGTERM on rank 1." in job.stdout
    (path,) = tmp_path.glob("results/*/result.json")
    assert verify.differences(path) == []
    raw = json.loads(path.read_text())["broken_off"]["raw"]
    assert raw["where"] == "search" and len(raw["trials"]) >= 8
