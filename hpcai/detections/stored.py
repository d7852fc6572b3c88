"""Detections of a set of frames as a table, and as a file: HDF5 with `detections`, float32[frames, 100, 6].

Rows [ymin, xmin, ymax, xmax, score, class], the highest score first; unused ones 0, 0, 0, 0, -1, -1. Of generated
frames `moments` has year and step, int32[frames, 2]: which frame of `python -m hpcai.data.generate` each one is. The
attribute `classes` of the file has for each class of a row its number in the published layout, as the boxes have it.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hpcai.detections import CLASS, MOST, Detections

DETECTIONS, MOMENTS, CLASSES = "detections", "moments", "classes"
Table = NDArray[np.float32]  # [frames, MOST, 6]
_UNUSED = (0, 0, 0, 0, -1, -1)


@dataclass(frozen=True, eq=False)
class About:
    """What a table is of: the published numbers of its classes, and of generated frames year and step, int32[n, 2]."""

    classes: tuple[int, ...]
    moments: NDArray[np.int32] | None = None


def name(index: int) -> str:
    """What the file of a test is called."""
    return f"detections-{index}.h5"


def empty(frames: int) -> Table:
    """A table in which no row is used."""
    table = np.empty((frames, MOST, 6), np.float32)
    table[:] = _UNUSED
    return table


def enter(table: Table, indices: Sequence[int], detections: Sequence[Detections]) -> None:
    """Enter what was found in some frames; frames beyond the table are left out."""
    for index, rows in zip(indices, detections, strict=True):
        if 0 <= index < len(table):
            table[index, : len(rows)] = rows


def used(table: Table) -> list[Detections]:
    """The rows of each frame that are used."""
    return [rows[rows[:, CLASS] >= 0] for rows in table]


def digest(table: Table) -> str:
    """SHA-256 (hexadecimal) of a table."""
    return hashlib.sha256(np.ascontiguousarray(table, "<f4").data).hexdigest()


def write(path: Path, table: Table, about: About) -> None:
    """Write a table, and what it is of."""
    import h5py

    temporary = path.with_name(f".{path.name}")
    with h5py.File(temporary, "w") as file:
        file.create_dataset(DETECTIONS, data=table, compression="gzip")
        file.attrs[CLASSES] = about.classes
        if about.moments is not None:
            file.create_dataset(MOMENTS, data=about.moments)
    temporary.replace(path)


def read(path: Path) -> Table:
    """The table in a file; OSError, KeyError or ValueError if there is none."""
    import h5py

    with h5py.File(path) as file:
        found = file[DETECTIONS]
        if found.ndim != 3 or found.shape[1:] != (MOST, 6) or found.dtype != np.float32:
            raise ValueError(f"{DETECTIONS} are {found.dtype} {found.shape}")
        table: Table = found[:]
        return table
