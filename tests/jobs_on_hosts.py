"""Jobs on hosts of network namespaces for tests, started by MPICH or by Open MPI; each rank has one processor."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import open_mpi
import pytest
from launch import BENCH, LAUNCHER_PREFIXES, ROOT, Finished, Job, run_job
from machine_requirements import missing

from benchmarks.hosts import Hosts, Launcher, hydra, no_namespaces
from benchmarks.hosts import open_mpi as by_open_mpi

Json = dict[str, Any]
OBSTACLE = no_namespaces() or hydra().obstacle()
needs_hosts = pytest.mark.skipif(bool(OBSTACLE), reason=f"NO HOSTS: {OBSTACLE}: JOBS ON SEVERAL HOSTS NOT TESTED")
LAUNCHERS = ("mpich", "openmpi")
ON_ONE_PROCESSOR = 'exec taskset -c $((${PMI_RANK:-$OMPI_COMM_WORLD_RANK} % $(nproc))) "$@"'
NO_NAMES = "127.0.0.1 localhost\n127.0.1.1 node1 node2\n"  # as Debian enters the name of a host
# The first has the same address on all hosts, as a bridge of containers; packets to the second one are lost.
PLANTED = {"docker0": "172.17.0.1/16", "private0": "172.18.0.{}/16"}


def launcher(name: str, *flags: str) -> Launcher:
    """The launcher of an MPI; the test is skipped without it."""
    found = hydra() if name == "mpich" else by_open_mpi(open_mpi.PLACE, *flags)
    if reason := found.obstacle():
        missing(f"NO OPEN MPI: {reason}; `make openmpi` installs it: ITS JOBS ON SEVERAL HOSTS NOT TESTED", "openmpi")
    return found


def started(
    hosts: Hosts,
    folder: Path,
    *arguments: Any,
    ranks: int | tuple[int, ...] = 1,
    program: Path = BENCH,
    env: Mapping[str, str] | None = None,
) -> Job:
    """A job of the program with an input in a folder, on all hosts."""
    command = ["sh", "-c", ON_ONE_PROCESSOR, "rank", hosts.launcher.python, str(program), *map(str, arguments)]
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(LAUNCHER_PREFIXES)}
    own = {**inherited, "PYTHONPATH": str(ROOT), "CUDA_VISIBLE_DEVICES": "", **(env or {})}
    return Job(hosts.command(command, ranks, folder), folder, own)


def ended(hosts: Hosts, folder: Path, *arguments: Any, timeout: float = 400, **options: Any) -> Finished:
    """The end of such a job."""
    with started(hosts, folder, *arguments, **options) as job:
        return job.wait(timeout)


def verified_result(folder: Path) -> Json:
    """The only result of a folder, which verifies."""
    (made,) = folder.glob("results/*")
    verified = run_job([BENCH, "--verify", made], None)
    assert verified.returncode == 0, verified.stdout + verified.stderr
    found: Json = json.loads((made / "result.json").read_text())
    return found
