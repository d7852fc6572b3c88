"""Failing runs end by themselves, soon, with the right exit code, a message, and without remaining processes."""

import json
import re
import socket
from pathlib import Path
from typing import Any

import pytest
from job_folder import END, START, prepared, unlike, write_images
from launch import BENCH, ROOT, Finished, Job, mpirun, run_job, start_job, wait_until
from sampled_parameters import slow

from hpcai.report import checksums

needs_mpirun = pytest.mark.skipif(mpirun() is None, reason="NO mpirun: FAILURES NOT TESTED")
FAILING = ROOT / "tests" / "jobs" / "failing.py"
FAULTY = ROOT / "tests" / "jobs" / "faulty.py"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder to run in."""
    return prepared(tmp_path)


def end_after(job: Job, failure: Path) -> Finished:
    """The end of a job after the failure has happened; TimeoutExpired if it does not end."""
    reached = wait_until(lambda: failure.exists() or job.process.poll() is not None, START)
    assert reached and failure.exists(), "".join(job.output())
    return job.wait(END)


def failing_job(folder: Path, ranks: int, failure: str, settings: str) -> Finished:
    """The end of a job of which one rank fails."""
    arguments = [FAILING, *failure.split(), "--set", *settings.split()]
    with start_job(arguments, ranks, folder, {"OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": ""}) as job:
        return end_after(job, folder / "failed")


def stored_summary(folder: Path) -> dict[str, Any]:
    """The summary in the one result of a folder; empty if there is none yet."""
    summaries = [json.loads(path.read_text())["summary"] for path in folder.glob("results/*/result.json")]
    assert len(summaries) <= 1
    return summaries[0] if summaries else {}


def broken_off(job: Finished, folder: Path, completed: int = 0, planned: int = 1) -> None:
    """The job ended with an error, left no process, and its report and result state that it was broken off."""
    assert job.returncode != 0
    assert job.leftovers == []
    assert "End of Tests." not in job.stdout
    (report,) = (folder / "results").glob("*/report.txt")
    assert f"BROKEN OFF after {completed} of {planned} tests." in report.read_text()
    assert "End of Tests." not in report.read_text()
    summary = stored_summary(folder)
    assert (summary["complete"], summary["tests"], summary["valid"]) == (False, completed, "INVALID")


# How the watcher says that a rank has died; without the launcher's help it knows the status for a moment only.
UNKNOWN = "died without a message (killed, or crashed)"
# What Open MPI's mpirun prints about a rank that has died comes after all that the job prints.
OPEN_MPIS_WORDS = re.compile(r"^-{70,}\n(?:(?!-{70,}).*\n)+?-{70,}\n", re.M)
SAID = {
    "os-exit-7": "ended without a message, with exit code 7",
    "kill": "was killed by signal 9",
    "abort": "was killed by signal 6",
    "segmentation-fault": "was killed by signal 11",
}


def died_unannounced(job: Finished, rank: int, how: str, place: str, folder: Path) -> None:
    """The watcher's line is the last on stderr: it names this rank. The folder says the same, and how to go on."""
    line = OPEN_MPIS_WORDS.sub("", job.stderr).splitlines()[-1]
    who = f"rank {rank} on {socket.gethostname()}"
    manner = f"({re.escape(UNKNOWN)}|{SAID[how]})"
    assert re.fullmatch(rf"hpcai: {who}(, group \d+,)? {manner} in test \d+ \(ensemble\){place}", line), line
    (made,) = (folder / "results").iterdir()
    lines = (made / checksums.BROKEN_OFF).read_text().splitlines()
    assert lines[1] == f"what: {line.removeprefix('hpcai: ')}"
    assert re.fullmatch(r"test: \d+ \(ensemble\) was not finished", lines[2])
    assert lines[3] == f"resume: bench.py --resume {made}"
    verified = run_job([BENCH, "--verify", made], None, folder)
    assert verified.returncode == 0 and checksums.BROKEN_OFF not in verified.stdout


def explained(job: Finished, folder: Path) -> None:
    """The rank says itself why the job ends: the watcher names none, and the folder has the rank's words."""
    assert not [line for line in job.stderr.splitlines() if any(how in line for how in (UNKNOWN, *SAID.values()))]
    (made,) = (folder / "results").iterdir()
    said = (made / checksums.BROKEN_OFF).read_text().splitlines()[1].removeprefix("what: ")
    assert f"hpcai: {said}\n" in job.stderr


WHERE = {
    "training": ", training, epoch 1",
    "loading": ", (warm up|training, epoch 1|validation, epoch 1)",
    "voting": ", ensemble, epoch 1",
    "waiting": "",
}
GROUP = "GROUPS=1 DEGREE=2"
MODELS = "GROUPS=2 DEGREE=1"
BOTH = "GROUPS=2 DEGREE=2"


@pytest.mark.slow
@needs_mpirun
@pytest.mark.parametrize(
    ("ranks", "rank", "place", "settings"),
    [
        pytest.param(2, 0, "training 2", GROUP, marks=pytest.mark.exhaustive),
        (2, 1, "loading 6", GROUP),
        pytest.param(2, 1, "voting 1", MODELS, marks=pytest.mark.exhaustive),
        pytest.param(4, 3, "validating 1", BOTH, marks=pytest.mark.exhaustive),
        pytest.param(4, 3, "waiting 2", GROUP, marks=pytest.mark.exhaustive),
    ],
)
def test_exception_on_one_rank_ends_the_job_and_is_reported(
    folder: Path, ranks: int, rank: int, place: str, settings: str
) -> None:
    job = failing_job(folder, ranks, f"{rank} {place} raise", settings)
    broken_off(job, folder)
    assert job.returncode == 3
    assert f"rank {rank} on {socket.gethostname()} raised RuntimeError: a fault of this rank" in job.stderr
    assert "Traceback (most recent call last):" in job.stderr and "in failing\n" in job.stderr
    explained(job, folder)


@needs_mpirun
@pytest.mark.parametrize(
    ("ranks", "rank", "place", "how", "settings"),
    slow(
        [(2, 1, "training 2", "exit-0", GROUP)],
        [
            (2, 1, "training 2", "exit-0", GROUP),
            (2, 0, "loading 6", "exit-5", MODELS),
            (4, 2, "waiting 2", "exit-0", GROUP),
        ],
    ),
)
def test_exit_on_one_rank_ends_the_job_and_is_reported(
    folder: Path, ranks: int, rank: int, place: str, how: str, settings: str
) -> None:
    job = failing_job(folder, ranks, f"{rank} {place} {how}", settings)
    broken_off(job, folder)
    assert job.returncode == 3
    assert f"rank {rank} on {socket.gethostname()} raised SystemExit: {how[-1]}" in job.stderr
    explained(job, folder)


@needs_mpirun
@pytest.mark.parametrize(
    ("ranks", "rank", "place", "how", "settings"),
    [
        pytest.param(2, 0, "training 2", "os-exit-7", GROUP, marks=pytest.mark.exhaustive),
        pytest.param(2, 1, "loading 6", "os-exit-7", MODELS, marks=pytest.mark.exhaustive),
        (2, 1, "training 2", "kill", GROUP),
        pytest.param(2, 0, "voting 1", "abort", MODELS, marks=pytest.mark.exhaustive),
        pytest.param(4, 1, "training 2", "kill", GROUP, marks=pytest.mark.exhaustive),
        pytest.param(4, 3, "waiting 2", "abort", GROUP, marks=pytest.mark.exhaustive),
        pytest.param(4, 3, "voting 1", "segmentation-fault", BOTH, marks=pytest.mark.slow),
    ],
)
def test_sudden_end_of_one_rank_ends_the_job(
    folder: Path, ranks: int, rank: int, place: str, how: str, settings: str
) -> None:
    job = failing_job(folder, ranks, f"{rank} {place} {how}", settings)
    broken_off(job, folder)
    died_unannounced(job, rank, how, WHERE[place.split()[0]], folder)
    crashed = how in ("abort", "segmentation-fault")
    assert ("in signal_itself" in job.stderr) == ("Fatal Python error: " in job.stderr) == crashed


@pytest.mark.exhaustive
@needs_mpirun
def test_job_ends_even_if_the_failing_ranks_output_is_not_read(folder: Path) -> None:
    broken_off(failing_job(folder, 2, "1 voting 1 raise-without-output", MODELS), folder)


@pytest.mark.slow
@needs_mpirun
def test_tests_before_the_failure_are_kept(folder: Path) -> None:
    job = failing_job(folder, 2, "0 voting 2 kill", f"{MODELS} LEARNRATE=0.1,0.2,0.3")
    broken_off(job, folder, 1, 3)
    died_unannounced(job, 0, "kill", ", ensemble, epoch 1", folder)
    assert job.stdout.count("\nWR10S1V4 ") == 1
    (made,) = (folder / "results").iterdir()
    assert run_job([BENCH, "--verify", made], None, folder).returncode == 0


@pytest.mark.exhaustive
@needs_mpirun
def test_two_jobs_at_once_do_not_disturb_each_other(folder: Path) -> None:
    with start_job([BENCH], 2, folder) as one, start_job([BENCH], 2, folder) as other:
        jobs = [one.wait(START), other.wait(START)]
    for job in jobs:
        assert job.returncode == 0, job.stdout + job.stderr
        assert "End of Tests." in job.stdout and "backend gloo" in job.stdout
    assert len(list((folder / "results").iterdir())) == 2


BATCH_LOST = """
import sys
from hpcai.main import main
from hpcai.train import loop
genuine = loop.training_indices
loop.training_indices = lambda *arguments: list(genuine(*arguments))[:-1]
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.slow
@needs_mpirun
def test_epoch_that_lacks_a_batch_ends_the_job(folder: Path) -> None:
    job = run_job(["-c", BATCH_LOST], 2, folder, START)
    broken_off(job, folder)
    assert job.returncode == 3 and "cannot go on: epoch 1 ended after 3 of 4 steps" in job.stderr


@pytest.mark.exhaustive
@needs_mpirun
def test_ensemble_evaluation_that_lacks_a_batch_on_one_rank_ends_the_job(folder: Path) -> None:
    faulty = [FAULTY, "batch_lost_by_the_ensemble", "--set", *MODELS.split()]
    job = run_job(faulty, 2, folder, START)
    broken_off(job, folder)
    assert job.returncode == 3
    assert "cannot go on: too few batches to evaluate together; allowed: 5" in job.stderr
    explained(job, folder)


@pytest.mark.exhaustive
@needs_mpirun
def test_other_data_at_the_same_path_ends_the_job(folder: Path) -> None:
    other = folder / "elsewhere"
    write_images(other, 1)
    job = run_job(unlike("-wdir", str(other)), 1, folder, START)
    broken_off(job, folder)
    assert job.returncode == 3
    assert f"rank 1 on {socket.gethostname()} cannot go on: {other / 'images'} holds data of SHA-256" in job.stderr
