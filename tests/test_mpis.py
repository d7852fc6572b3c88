"""A few runs of the program with each MPI of tests/mpi_installations.py: `make test-mpi`, docs/INSTALL.md."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from job_folder import result, results
from launch import BENCH, Job, wait_until
from mpi_installations import SOURCES, Installation, installation

pytestmark = [pytest.mark.mpis, pytest.mark.exhaustive]
MODELS = """\
Two models on two ranks each
Small
small           OUTPUT
0               TELEMETRY
0.05            CHECKPOINT
[ensemble]
generated       DATASET
8               RESOLUTION
256             SAMPLES
2               GROUPS
2               DEGREE
16              BATCH
1               EPOCHS
0.01            TARGET
"""
SEARCH = """\
A search by two groups
Small
search          OUTPUT
0               TELEMETRY
[nas]
generated       DATASET
8               RESOLUTION
64              SAMPLES
2               GROUPS
1               DEGREE
16              BATCH
2               EPOCHS
2               TRIALS
1               ROUNDS
0.01            TARGET
"""
OWN_MPI = "import mpi4py; mpi4py.rc.initialize = False; from mpi4py import MPI; print(MPI.Get_library_version())"
ENDLESS = ["--set", "GROUPS=1", "SAMPLES=2048", "EPOCHS=100000"]


@pytest.fixture(scope="module", params=[*SOURCES])
def mpi(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Installation:
    return installation(request.param, tmp_path_factory.mktemp("mpi"))


def verifies(mpi: Installation, folder: Path) -> None:
    """--verify finds no difference, in the environment of that MPI and without mpirun."""
    done = mpi.run(0, [BENCH, "--verify", results(folder)], folder)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(("text", "ranks"), [(MODELS, 4), (SEARCH, 2)], ids=["models", "search"])
def test_a_run_passes_its_checks_and_names_the_mpi(mpi: Installation, tmp_path: Path, text: str, ranks: int) -> None:
    (tmp_path / "input.dat").write_text(text)
    job = mpi.run(ranks, [BENCH, "input.dat"], tmp_path)
    assert job.returncode == 0 and "End of Tests." in job.stdout, job.stdout + job.stderr
    (named,) = (" ".join(line.split()[2:]) for line in job.stdout.splitlines() if line.startswith("MPI "))
    assert named.startswith(mpi.version)
    assert len(result(tmp_path)["ranks"]) == ranks and "FAILED" not in job.stdout and not job.leftovers
    verifies(mpi, tmp_path)


def training(mpi: Installation, folder: Path) -> Job:
    """A job on two ranks that has begun to train, and does not end by itself."""
    (folder / "input.dat").write_text(MODELS)
    job = mpi.start(2, [BENCH, "input.dat", *ENDLESS], folder)
    if not wait_until(lambda: any(folder.glob("results/*/.checkpoints/*/*")), 300):
        with job:
            pytest.fail("no checkpoint: " + "".join(job.output()))
    return job


def test_a_killed_rank_ends_the_job_and_is_named(mpi: Installation, tmp_path: Path) -> None:
    with training(mpi, tmp_path) as job:
        os.kill(job.ranks()[1], signal.SIGKILL)
        killed = time.monotonic()
        ended = job.wait(30)
    assert time.monotonic() - killed < 10 and ended.returncode and not ended.leftovers
    # Before Open MPI 4 ends it, rank 0 may say that its connection was closed.
    (line,) = [line for line in ended.stderr.splitlines() if line.startswith("hpcai: rank 1 ")]
    found = r"hpcai: rank 1 on \S+, group 0, (was killed by signal 9|died without a message .*) in test 1 \(ensemble\)"
    assert re.match(rf"{found}, \w+, epoch \d+", line), line


def test_a_signal_to_mpirun_ends_the_run_in_order(mpi: Installation, tmp_path: Path) -> None:
    # Open MPI's mpirun kills the ranks a second after SIGTERM, and passes this one on.
    number = signal.SIGUSR1 if mpi.version.startswith("Open MPI") else signal.SIGTERM
    with training(mpi, tmp_path) as job:
        job.process.send_signal(number)
        ended = job.wait(60)
    assert ended.returncode and not ended.leftovers, ended.stderr
    assert result(tmp_path)["broken_off"]["cause"].startswith(f"{number.name} on rank ")
    verifies(mpi, tmp_path)


def test_the_launcher_of_another_kind_of_mpi_is_refused(mpi: Installation, tmp_path: Path) -> None:
    """Kinds are told apart by how they start their ranks, so MPICH's launcher also starts those of Intel MPI."""
    own = subprocess.run([sys.executable, "-P", "-c", OWN_MPI], capture_output=True, text=True, check=True).stdout
    if own.startswith("Open MPI") == mpi.version.startswith("Open MPI"):
        pytest.skip("the mpi4py of this environment is of the same kind")
    (tmp_path / "input.dat").write_text(MODELS)
    job = mpi.run(2, [BENCH, "input.dat"], tmp_path, python=Path(sys.executable))
    assert job.returncode == 2 and not [*tmp_path.glob("results/*")] and "Traceback" not in job.stderr
    (line,) = [line for line in job.stderr.splitlines() if line.startswith("hpcai: ")]
    assert "the launcher started 2 ranks" in line and "belongs to another MPI" in line
