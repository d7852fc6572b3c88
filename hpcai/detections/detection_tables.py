"""Tables of the detections in a set of frames, and their HDF5 file of two or three data sets.

`detections`, float32[frames, 100, 6], has rows [ymin, xmin, ymax, xmax, score, class], the highest score first; unused
rows are 0, 0, 0, 0, -1, -1. `boxes`, int32[frames, 15, 5], has the true boxes, rows [ymin, xmin, ymax, xmax, class];
unused rows are -1. For generated frames `moments` has year and step, int32[frames, 2]: which frame of `python -m
hpcai.data.generate` each one is. The attribute `classes` of the file has, for each class of a row, its number in the
published layout.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hpcai import hdf5_tables
from hpcai.detections import CLASS, MOST, Detections

DETECTIONS, BOXES, MOMENTS, CLASSES = "detections", "boxes", "moments", "classes"
TRUE = 15  # rows of a frame's boxes
Table = NDArray[np.float32]  # [frames, MOST, 6]
_UNUSED = (0, 0, 0, 0, -1, -1)
_KINDS = {DETECTIONS: ("<f4", (MOST, 6)), BOXES: ("<i4", (TRUE, 5)), MOMENTS: ("<i4", (2,))}


class DetectionTables(NamedTuple):
    """Detections of a set of frames, in its order, and the true boxes, int32[frames, TRUE, 5]."""

    detections: Table
    boxes: NDArray[np.int32]

    def enter(self, indices: Sequence[int], detections: Sequence[Detections], boxes: Sequence[NDArray[Any]]) -> None:
        """Enter the detections of some frames; frames beyond the table are ignored."""
        for index, rows, true in zip(indices, detections, boxes, strict=True):
            if 0 <= index < len(self.detections):
                self.detections[index, : len(rows)] = rows
                self.boxes[index] = true


@dataclass(frozen=True, eq=False)
class Metadata:
    """Metadata of the tables.

    The published numbers of the classes, and of generated frames year and step, int32[n, 2].
    """

    classes: tuple[int, ...]
    moments: NDArray[np.int32] | None = None


def name(index: int | str) -> str:
    """File name of a test's detections; with an asterisk, the pattern of all of them."""
    return f"detections-{index}.h5"


def empty(frames: int) -> DetectionTables:
    """Tables with all rows unused."""
    table = np.empty((frames, MOST, 6), np.float32)
    table[:] = _UNUSED
    return DetectionTables(table, np.full((frames, TRUE, 5), -1, np.int32))


def used(table: Table) -> list[Detections]:
    """The used rows of each frame."""
    return [rows[rows[:, CLASS] >= 0] for rows in table]


def digest(found: DetectionTables) -> str:
    """SHA-256 (hexadecimal) of the tables."""
    whole = hashlib.sha256(np.ascontiguousarray(found.detections, "<f4").data)
    whole.update(np.ascontiguousarray(found.boxes, "<i4").data)
    return whole.hexdigest()


def write(path: Path, found: DetectionTables, about: Metadata) -> None:
    """Write tables and metadata. HpcaiError if that fails."""
    moments = {} if about.moments is None else {MOMENTS: about.moments}
    hdf5_tables.write(path, {**found._asdict(), **moments}, {CLASSES: about.classes})


def read(path: Path, frames: int) -> tuple[DetectionTables, Metadata]:
    """The tables of `frames` frames, and their metadata.

    Raises OSError, RuntimeError, LookupError, TypeError or ValueError if the file has any other content.
    """
    import h5py

    with h5py.File(path) as file:
        if others := sorted({*file} - {*_KINDS}):
            raise ValueError(f"{others[0][:40]!r}; allowed: {', '.join(_KINDS)}")
        names = [each for each in _KINDS if each != MOMENTS or each in file]
        kinds = {each: (kind, (frames, *rest)) for each, (kind, rest) in _KINDS.items()}
        tables = {each: hdf5_tables.data_set(file, each, *kinds[each]) for each in names}
        classes = np.asarray(file.attrs[CLASSES])
        if classes.ndim != 1 or classes.dtype.kind != "i":
            raise ValueError(f"{CLASSES} are {classes.dtype} {classes.shape}")
    return DetectionTables(tables[DETECTIONS], tables[BOXES]), Metadata(tuple(classes.tolist()), tables.get(MOMENTS))
