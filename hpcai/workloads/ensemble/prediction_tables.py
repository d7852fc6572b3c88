"""The file of an ensemble's predictions beside the result, predictions-I.h5: the tables of hpcai.frozen.votes."""

import hashlib
from pathlib import Path
from typing import Any

import numpy as np

from hpcai import hdf5_tables
from hpcai.frozen.votes import TYPES, Ensemble, VoteTables, counted, layout
from hpcai.workloads.ensemble.record import Recount


def name(index: int) -> str:
    """File name of a test's predictions."""
    return f"predictions-{index}.h5"


def digest(found: VoteTables) -> str:
    """SHA-256 (hexadecimal) of the tables, one after the other."""
    whole, tables = hashlib.sha256(), list[Any](found)
    for table, kind in zip(tables, TYPES, strict=True):
        whole.update(np.ascontiguousarray(table, kind).ravel().data)  # in place: rank 0 has the tables of all models
    return whole.hexdigest()


def recount(found: VoteTables, of: Ensemble, entropy: int) -> Recount:
    """The figures that follow from the tables."""
    return Recount(entropy=f"{entropy:016x}", sha256=digest(found), **counted(found, of, entropy)._asdict())


def write(path: Path, found: VoteTables) -> None:
    """Write the tables. HpcaiError if that fails."""
    hdf5_tables.write(path, found._asdict())


def read(path: Path, of: Ensemble, entropy: int) -> VoteTables:
    """The tables of an ensemble. Raises one of hpcai.hdf5_tables.UNREADABLE if the file has any other content."""
    return VoteTables(**hdf5_tables.read(path, layout(of, entropy)))
