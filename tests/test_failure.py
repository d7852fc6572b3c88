"""Runs that go wrong end by themselves, soon, with the right exit code, a message, and no process left behind."""

import gzip
import json
import signal
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from idx_files import write_set
from launch import BENCH, ROOT, Finished, Job, mpirun, run_job, start_job, wait_until

needs_mpirun = pytest.mark.skipif(mpirun() is None, reason="NO mpirun: FAILURES NOT TESTED")
FAILING = ROOT / "tests" / "jobs" / "failing.py"
START = 90.0  # seconds until a job has come so far
END = 30.0  # seconds after which a job that should end by itself is killed

INPUT = """\
Small made-up pictures
No header in this line either
[ensemble]
fashion:pictures  DATASET
1                 GROUPS
2                 DEGREE
8                 BATCH
8                 RESOLUTION
1                 EPOCHS
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder to run in: an input and the data that it names."""
    write_set(tmp_path / "pictures", np.arange(64) % 10, np.arange(40) % 10, compressed=False)
    (tmp_path / "input.dat").write_text(INPUT)
    return tmp_path


def listing(folder: Path) -> list[str]:
    """Everything below a folder, by name."""
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def end_after(job: Job, failure: Path) -> Finished:
    """How a job ends once the failure has happened; TimeoutExpired if it does not."""
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
    """The job ended with an error, left no process, and its report and result say that it was broken off."""
    assert job.returncode != 0
    assert job.leftovers == []
    assert "End of Tests." not in job.stdout
    (report,) = (folder / "results").glob("*/report.txt")
    assert f"BROKEN OFF after {completed} of {planned} tests." in report.read_text()
    assert "End of Tests." not in report.read_text()
    summary = stored_summary(folder)
    assert (summary["complete"], summary["tests"], summary["valid"]) == (False, completed, "INVALID")


GROUP = "GROUPS=1 DEGREE=2"
MODELS = "GROUPS=2 DEGREE=1"
BOTH = "GROUPS=2 DEGREE=2"


@needs_mpirun
@pytest.mark.parametrize(
    ("ranks", "rank", "place", "settings"),
    [
        (2, 0, "training 2", GROUP),
        (2, 1, "loading 6", GROUP),
        (2, 1, "voting 1", MODELS),
        (4, 3, "validating 1", BOTH),
        (4, 3, "waiting 1", GROUP),
    ],
)
def test_exception_on_one_rank_ends_the_job_and_is_told(
    folder: Path, ranks: int, rank: int, place: str, settings: str
) -> None:
    job = failing_job(folder, ranks, f"{rank} {place} raise", settings)
    broken_off(job, folder)
    assert job.returncode == 3
    assert f"rank {rank} on {socket.gethostname()} raised RuntimeError: a fault of this rank" in job.stderr
    assert "Traceback (most recent call last):" in job.stderr and "in failing\n" in job.stderr


@needs_mpirun
@pytest.mark.parametrize(
    ("ranks", "rank", "place", "how", "settings"),
    [
        (2, 1, "training 2", "exit-0", GROUP),
        (2, 0, "loading 6", "exit-5", MODELS),
        (4, 2, "waiting 1", "exit-0", GROUP),
    ],
)
def test_exit_on_one_rank_ends_the_job_and_is_told(
    folder: Path, ranks: int, rank: int, place: str, how: str, settings: str
) -> None:
    job = failing_job(folder, ranks, f"{rank} {place} {how}", settings)
    broken_off(job, folder)
    assert job.returncode == 3
    assert f"rank {rank} on {socket.gethostname()} raised SystemExit: {how[-1]}" in job.stderr


@needs_mpirun
@pytest.mark.parametrize(
    ("ranks", "rank", "place", "how", "settings"),
    [
        (2, 0, "training 2", "os-exit-7", GROUP),
        (2, 1, "loading 6", "os-exit-7", MODELS),
        (2, 1, "training 2", "kill", GROUP),
        (2, 0, "voting 1", "terminate", MODELS),
        (4, 1, "training 2", "kill", GROUP),
        (4, 3, "waiting 1", "terminate", GROUP),
        (4, 3, "voting 1", "segmentation-fault", BOTH),
    ],
)
def test_sudden_end_of_one_rank_ends_the_job(
    folder: Path, ranks: int, rank: int, place: str, how: str, settings: str
) -> None:
    broken_off(failing_job(folder, ranks, f"{rank} {place} {how}", settings), folder)


@needs_mpirun
def test_job_ends_even_if_nobody_reads_what_the_rank_prints(folder: Path) -> None:
    broken_off(failing_job(folder, 2, "1 voting 1 raise-without-output", MODELS), folder)


@needs_mpirun
def test_tests_before_the_failure_are_kept(folder: Path) -> None:
    job = failing_job(folder, 2, "0 voting 2 kill", f"{MODELS} LEARNRATE=0.1,0.2,0.3")
    broken_off(job, folder, 1, 3)
    assert job.stdout.count("\nWR10S1V4 ") == 1
    (made,) = (folder / "results").iterdir()
    assert run_job([BENCH, "--verify", made], None, folder).returncode == 0


@needs_mpirun
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=lambda number: number.name)
def test_signal_to_mpirun_ends_the_job(folder: Path, number: signal.Signals) -> None:
    with start_job([BENCH, "--set", "EPOCHS=1,100000"], 2, folder) as job:
        assert wait_until(lambda: stored_summary(folder).get("tests") == 1, START), job.output()
        job.process.send_signal(number)
        broken_off(job.wait(END), folder, 1, 2)


@needs_mpirun
def test_two_jobs_at_once_do_not_disturb_each_other(folder: Path) -> None:
    with start_job([BENCH], 2, folder) as one, start_job([BENCH], 2, folder) as other:
        jobs = [one.wait(START), other.wait(START)]
    for job in jobs:
        assert job.returncode == 0, job.stdout + job.stderr
        assert "End of Tests." in job.stdout and "backend gloo" in job.stdout
    assert len(list((folder / "results").iterdir())) == 2


# --- refused before anything runs


def refused(job: Finished, folder: Path, before: list[str], code: int = 2) -> list[str]:
    """Nothing ran, nothing was written; the lines of the message, of which there is one copy."""
    assert job.returncode == code
    assert job.stdout == "" and job.leftovers == []
    assert listing(folder) == before
    assert job.stderr.count("hpcai: ") == 1 and "Traceback" not in job.stderr
    return job.stderr.splitlines()


@needs_mpirun
@pytest.mark.parametrize(
    ("ranks", "environment"),
    [
        (None, {"PMI_SIZE": "3"}),
        (None, {"MPI_LOCALNRANKS": "3"}),
        (None, {"SLURM_NTASKS": "3", "SLURM_PROCID": "0"}),
        (2, {"OMPI_COMM_WORLD_SIZE": "3"}),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else f"{value or 1} ranks",
)
def test_launcher_of_another_mpi_is_refused(folder: Path, ranks: int | None, environment: dict[str, str]) -> None:
    before = listing(folder)
    (line,) = refused(run_job([BENCH], ranks, folder, START, environment), folder, before)
    name, size = next(iter(environment.items()))
    assert f"the launcher started {size} ranks ({name}={size}) but MPI_COMM_WORLD has {ranks or 1}" in line


@needs_mpirun
def test_copies_of_another_launcher_say_it_once(folder: Path) -> None:
    before = listing(folder)
    copies = [
        run_job([BENCH], None, folder, START, {"OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_RANK": rank})
        for rank in ("0", "1")
    ]
    refused(copies[0], folder, before)
    assert (copies[1].returncode, copies[1].stdout, "hpcai: " in copies[1].stderr) == (2, "", False)


def unlike(settings: list[str]) -> list[object]:
    """Arguments of mpirun after its first rank: a second one, started otherwise."""
    return [BENCH, ":", "-np", "1", *settings, str(Path(mpirun() or "").with_name("python")), BENCH]


@needs_mpirun
def test_launcher_that_is_wrong_for_one_rank_alone_is_refused_by_all(folder: Path) -> None:
    before = listing(folder)
    arguments = unlike(["-env", "OMPI_COMM_WORLD_SIZE", "5"])
    (line,) = refused(run_job(arguments, 1, folder, END), folder, before)
    assert "OMPI_COMM_WORLD_SIZE=5" in line and "MPI_COMM_WORLD has 2" in line


@needs_mpirun
def test_other_data_at_the_same_path_ends_the_job(folder: Path) -> None:
    other = folder / "elsewhere"
    write_set(other / "pictures", np.arange(1, 65) % 10, np.arange(40) % 10, compressed=False)
    job = run_job(unlike(["-wdir", str(other)]), 1, folder, START)
    broken_off(job, folder)
    assert job.returncode == 3
    assert f"rank 1 on {socket.gethostname()} cannot go on: {other / 'pictures'} holds data of SHA-256" in job.stderr


CODES = """
import os, pathlib, sys
from hpcai.driver import main
code = main(sys.argv[1:])
from mpi4py import MPI
pathlib.Path(os.environ["CODES"], str(MPI.COMM_WORLD.rank)).write_text(str(code))
sys.exit(code)
"""


@pytest.fixture
def codes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder where each of three ranks leaves its exit code; all must be 2."""
    path = tmp_path_factory.mktemp("codes")
    yield path
    assert {file.name: file.read_text() for file in path.iterdir()} == dict.fromkeys("012", "2")


@needs_mpirun
@pytest.mark.parametrize(
    ("settings", "reasons"),
    [
        (["DEGREE=5"], ["DEGREE"]),
        (["NETWORK=resnet9", "EPOCHS=0.5"], ["NETWORK", "resnet9", "EPOCHS", "0.5"]),
        (["BATCH=63", "DEGREE=3", "SAMPLES=3"], ["3 training samples for 3 ranks"]),
        (["DATASET=fashion:nowhere"], ["nowhere"]),
    ],
    ids=lambda value: value[0],
)
def test_bad_input_is_refused_by_all_ranks(folder: Path, codes: Path, settings: list[str], reasons: list[str]) -> None:
    before = listing(folder)
    job = run_job(["-c", CODES, "--set", *settings], 3, folder, START, {"CODES": str(codes)})
    lines = refused(job, folder, before)
    assert all(any(reason in line for line in lines) for reason in reasons), lines


@needs_mpirun
def test_missing_input_and_wrong_options_are_refused_by_all_ranks(folder: Path, codes: Path) -> None:
    before = listing(folder)
    for arguments, reason in ((["absent.dat"], "absent.dat"), (["--frobnicate"], "--frobnicate")):
        job = run_job(["-c", CODES, *arguments], 3, folder, START, {"CODES": str(codes)})
        assert reason in refused(job, folder, before)[0]


@needs_mpirun
def test_damaged_data_are_refused_by_all_ranks(folder: Path, codes: Path) -> None:
    (labels,) = (folder / "pictures").glob("train-labels*")
    labels.write_bytes(gzip.compress(labels.read_bytes()))
    before = listing(folder)
    job = run_job(["-c", CODES], 3, folder, START, {"CODES": str(codes)})
    assert str(labels) in refused(job, folder, before)[0]


@needs_mpirun
def test_result_folder_that_cannot_be_made_ends_the_job_with_its_path(folder: Path) -> None:
    (folder / "results").write_text("not a folder")
    before = listing(folder)
    (line,) = [
        line for line in refused(run_job([BENCH], 2, folder, START), folder, before, 3) if line.startswith("hpcai: ")
    ]
    assert f"cannot make the result folder {folder / 'results'}" in line
