"""Mean average precision over a group: the ranks' matched detections, gathered block by block on the first rank."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

from hpcai.detections.coco_evaluation import ROW, Matches, average_precision, mean_average_precision

BLOCK_ROWS = 2**20  # rows that all ranks together send at a time


@dataclass(frozen=True)
class Quality:
    """Average precision of each class, None for a class without true boxes; their mean, None if no class has any.

    truths: number of true boxes of each class.
    """

    classes: tuple[float | None, ...]
    mean: float | None
    truths: tuple[int, ...]


def quality(matches: Matches, comm: MPI.Comm, block: int = BLOCK_ROWS) -> Quality:
    """Quality of the frames of all ranks, each matched by one rank; independent of the number of ranks. Collective.

    The first rank holds the rows of all, 24 bytes each; the others their own. `block` is the same on every rank.
    """
    truths = np.zeros_like(matches.truths) if comm.rank == 0 else None
    comm.Reduce(matches.truths, truths)
    rows = [np.empty(0, ROW), *_gathered(matches.rows, comm, max(1, block // comm.size))]
    found = _quality(Matches(np.concatenate(rows), truths)) if truths is not None else None
    result: Quality = comm.bcast(found)
    return result


def _quality(matches: Matches) -> Quality:
    averages = average_precision(matches)
    numbers = [None if np.isnan(value) else float(value) for value in averages]
    mean = mean_average_precision(averages)
    truths = tuple(int(count) for count in matches.truths)
    return Quality(tuple(numbers), None if np.isnan(mean) else mean, truths)


def _gathered(rows: NDArray[Any], comm: MPI.Comm, share: int) -> Iterator[NDArray[Any]]:
    """The rows of all ranks on the first rank, at most `share` of each rank at a time; nothing on the others.

    Collective. Only the first rank learns how many rows each rank has, in 8 bytes each.
    """
    counts = np.zeros(comm.size if comm.rank == 0 else 0, np.int64)
    comm.Gather(np.array(len(rows), np.int64), counts if comm.rank == 0 else None)
    for begin in range(0, int(comm.allreduce(len(rows), MPI.MAX)), share):
        sizes = ROW.itemsize * np.clip(counts - begin, 0, share)
        received = np.empty(sizes.sum() if comm.rank == 0 else 0, np.uint8)
        part = np.ascontiguousarray(rows[begin : begin + share]).view(np.uint8)
        comm.Gatherv([part, MPI.BYTE], [received, sizes.tolist(), MPI.BYTE] if comm.rank == 0 else None)
        if comm.rank == 0:
            yield received.view(ROW)
