"""Runs of the program with a workload from a package of the tests."""

import os
from pathlib import Path

import pytest
from launch import BENCH, ROOT, Finished, mpirun, run_job

from hpcai.workloads.registry import FURTHER


def with_workload(package: str, folder: Path, *arguments: str | Path, ranks: int | None = None) -> Finished:
    """The program with the workload of a package, in a folder."""
    path = os.pathsep.join([str(ROOT), str(ROOT / "tests")])
    return run_job([BENCH, *arguments], ranks, folder, env={FURTHER: package, "PYTHONPATH": path})


def results_of(package: str, text: str, folder: Path) -> Path:
    """The folder of results of a run of this input on two ranks; the report in it is the printed output."""
    if mpirun() is None:
        pytest.skip("NO mpirun: MPI TEST NOT RUN")
    (folder / "input.dat").write_text(text)
    job = with_workload(package, folder, ranks=2)
    assert job.returncode == 0, job.stderr
    (made,) = (folder / "results").iterdir()
    assert (made / "report.txt").read_text("utf-8") == job.stdout
    return made
