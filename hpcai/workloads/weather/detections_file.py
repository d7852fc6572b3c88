"""File of an ensemble's detections in the validation frames, gathered on the first rank."""

from pathlib import Path

from mpi4py import MPI

from hpcai import hdf5_tables
from hpcai.comm.world import broadcast
from hpcai.detections import detection_tables
from hpcai.train.detector_ensemble import Fused


def write(found: Fused, frames: int, path: Path, about: detection_tables.Metadata, comm: MPI.Comm) -> str:
    """Write the detections of `frames` frames; returns their SHA-256 (hexadecimal), the same on every rank. Collective.

    The first rank holds all of them, 2,700 bytes a frame.
    """
    parts = comm.gather((found.indices, found.detections, found.boxes))
    digest = ""
    if parts is not None:
        tables = detection_tables.empty(frames)
        for indices, detections, boxes in parts:
            tables.enter(indices, detections, boxes)
        with hdf5_tables.telling():
            detection_tables.write(path, tables, about)
        digest = detection_tables.digest(tables)
    return broadcast(comm, digest)
