"""Folders in which the program is run, for tests of how it ends, and unusual ways to start it there."""

import json
import sys
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from idx_files import write_set
from launch import BENCH

Json = dict[str, Any]

START = 90.0  # seconds in which a job reaches the awaited state
END = 30.0  # seconds after which a job that should end by itself is killed

INPUT = """\
Small made-up images
No header in this line either
[ensemble]
fashion:images    DATASET
1                 GROUPS
2                 DEGREE
8                 BATCH
8                 RESOLUTION
1                 EPOCHS
"""


def prepared(folder: Path) -> Path:
    """The folder, with an input and its data."""
    write_images(folder, 0)
    (folder / "input.dat").write_text(INPUT)
    return folder


def write_images(folder: Path, first: int) -> None:
    """Made-up images of classes that begin with `first`."""
    write_set(folder / "images", np.arange(first, first + 64) % 10, np.arange(40) % 10, compressed=False)


def results(folder: Path) -> Path:
    """The folder of the first result."""
    return next(folder.glob("results/*"))


def result(folder: Path) -> Json:
    """The first result."""
    found: Json = json.loads((results(folder) / "result.json").read_text())
    return found


def listing(folder: Path) -> list[str]:
    """Everything below a folder, by name."""
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def unlike(*settings: str) -> list[str | PathLike[str]]:
    """Arguments of mpirun for a job of one rank, and a second rank with settings of its own."""
    return [BENCH, ":", "-np", "1", *settings, sys.executable, BENCH]
