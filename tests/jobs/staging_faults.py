"""The real program on a node whose folder for copies fails: staging_faults.py FAULT [arguments of bench.py]."""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from planting import RANK, WRONG_RANK, Fault, replaced

from hpcai.data import node_copies
from hpcai.main import main

FREE = 1000  # bytes


def full() -> Fault:
    """The folder has hardly any space; shared memory has."""
    little = SimpleNamespace(f_bavail=1, f_frsize=FREE, f_blocks=0)
    return replaced(os, "statvfs", lambda genuine: lambda path: little)


def spoil(path: Path) -> None:
    """Flip one bit of the last byte."""
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)


def spoiled_later() -> Fault:
    """A file loses a bit after one rank has copied it."""

    def make(genuine: Callable[..., None]) -> Any:
        def copy(place: Path, file: node_copies.File) -> None:
            genuine(place, file)
            if RANK == WRONG_RANK:
                spoil(place / "files" / file.name)

        return copy

    return replaced(node_copies, "copy_file", make)


if __name__ == "__main__":
    with globals()[sys.argv[1]]():
        sys.exit(main(sys.argv[2:]))
