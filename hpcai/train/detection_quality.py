"""Quality of detections over a group: what its ranks judged is brought together block by block, on one of them."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

from hpcai.detections.coco_evaluation import ROW, Judged, average_precision, mean_average_precision

BLOCK_ROWS = 2**20  # that all ranks together send at a time


@dataclass(frozen=True)
class Quality:
    """Average precision of each class, None of one without true boxes; their mean, None where no class has any.

    truths: how many true boxes there are of each class.
    """

    classes: tuple[float | None, ...]
    mean: float | None
    truths: tuple[int, ...]


def quality(judged: Judged, comm: MPI.Comm, block: int = BLOCK_ROWS) -> Quality:
    """Of the frames of all ranks, each judged by one of them: the same numbers whatever their number. Collective.

    The first rank has the memory of all rows, 24 bytes each; the others that of their own. `block` is the same on
    every rank.
    """
    truths = np.zeros_like(judged.truths) if comm.rank == 0 else None
    comm.Reduce(judged.truths, truths)
    rows = [np.empty(0, ROW), *_gathered(judged.rows, comm, max(1, block // comm.size))]
    found = _quality(Judged(np.concatenate(rows), truths)) if truths is not None else None
    result: Quality = comm.bcast(found)
    return result


def _quality(judged: Judged) -> Quality:
    averages = average_precision(judged)
    numbers = [None if np.isnan(value) else float(value) for value in averages]
    mean = mean_average_precision(averages)
    truths = tuple(int(count) for count in judged.truths)
    return Quality(tuple(numbers), None if np.isnan(mean) else mean, truths)


def _gathered(rows: NDArray[Any], comm: MPI.Comm, share: int) -> Iterator[NDArray[Any]]:
    """The rows of all ranks on the first one, at most `share` of each at a time; nothing on the others. Collective."""
    counts = np.array(comm.allgather(len(rows)))
    for begin in range(0, int(counts.max()), share):
        sizes = ROW.itemsize * np.clip(counts - begin, 0, share)
        received = np.empty(sizes.sum() if comm.rank == 0 else 0, np.uint8)
        part = np.ascontiguousarray(rows[begin : begin + share]).view(np.uint8)
        comm.Gatherv([part, MPI.BYTE], [received, sizes.tolist(), MPI.BYTE] if comm.rank == 0 else None)
        if comm.rank == 0:
            yield received.view(ROW)
