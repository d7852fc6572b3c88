#!/usr/bin/env python3
"""HPCAI bench: `mpirun -np N python bench.py [input.dat]` prints an HPL-style table; `--help` lists the rest."""

import sys

import hpcai  # noqa: F401 - of the folder of this file, which comes last for all others: users put files there

if __name__ == "__main__" and not sys.flags.safe_path:
    sys.path.append(sys.path.pop(0))

import os
from importlib.util import find_spec
from typing import NoReturn

from hpcai.machine.launcher import environment_rank

REQUIRED = ("mpi4py", "numpy", "torch", "h5py", "numba", "msgspec")  # install_requires of setup.py


def main() -> NoReturn:
    """Run the program and exit with its code; 2, with the cure, where this Python cannot run it."""
    missing = [name for name in REQUIRED if find_spec(name) is None]
    if sys.version_info < (3, 11) or missing:
        lacks = f"lacks {', '.join(missing)}" if missing else "is older than 3.11"
        if environment_rank(os.environ) == 0:
            print(f"bench.py: {sys.executable} {lacks}: run `make install` and use .venv/bin/python", file=sys.stderr)
        sys.exit(2)
    from hpcai.main import command

    command()


if __name__ == "__main__":
    main()
