"""What a rank keeps of the evaluation of all models together: its model's classes and outputs, and the votes' results.

The first rank gathers them: its memory is bounded by hpcai.frozen.votes, whatever the number of models.
"""

from typing import Any, NamedTuple

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

from hpcai.comm.grid import Group
from hpcai.data.philox import Integers
from hpcai.frozen.votes import NOBODY, Classes, Outputs, Sampled


class Part(NamedTuple):
    """Of the samples of some ranks: places in the table of kept ones, and rows for these."""

    places: Integers
    rows: NDArray[Any]


class KeptEvaluation(NamedTuple):
    """What is kept of both splits."""

    validation: "KeptVotes"
    training: "KeptVotes"


class KeptVotes:
    """Classes and outputs of one split on one rank."""

    def __init__(self, sampled: Sampled, classes: int) -> None:
        self._samples, self._voted = sampled.samples, sampled.samples[sampled.voted]
        self._own = [Part(np.empty(0, np.int64), np.empty(0, np.uint16))]
        self._outputs = [Part(np.empty(0, np.int64), np.empty((0, classes), np.float32))]
        self._together = [Part(np.empty(0, np.int64), np.empty(0, np.uint16))]

    def note(self, indices: Integers, outputs: NDArray[np.float64]) -> None:
        """Keep what this rank's model says of samples: outputs float64[n, classes]."""
        self._own.append(_those_of(self._samples, indices, outputs.argmax(1).astype(np.uint16)))
        self._outputs.append(_those_of(self._voted, indices, outputs.astype(np.float32)))

    def voted(self, indices: Integers, classes: NDArray[np.int64]) -> None:
        """Keep what all models together say of samples, on the rank that has counted their votes."""
        self._together.append(_those_of(self._samples, indices, classes.astype(np.uint16)))

    def models(self, group: Group) -> Classes | None:
        """The classes by each model, uint16[P, S], on the first rank; None on the others. Collective."""
        own = _own(group, self._own)
        return gathered(group, _combined(group.model, own, (len(self._samples),), NOBODY, MPI.MIN))

    def outputs(self, group: Group) -> Outputs | None:
        """The outputs of each model, float32[P, K, classes], on the first rank; None on the others. Collective."""
        own = _own(group, self._outputs)
        return gathered(group, _combined(group.model, own, (len(self._voted), *own.rows.shape[1:]), 0, MPI.SUM))

    def together(self, group: Group) -> Classes | None:
        """The classes by all models together, uint16[S], on the first rank; None on the others. Collective."""
        return _combined(group.active, _own(group, self._together), (len(self._samples),), NOBODY, MPI.MIN)


def gathered(group: Group, row: NDArray[Any] | None) -> Any:
    """The rows of all models, one below the other, on the first rank; None on the others.

    row: of a model, on its first rank; None on the others. Collective over the models' first ranks.
    """
    if row is None:
        return None
    table = np.empty((group.groups, *row.shape), row.dtype) if group.across.rank == 0 else None
    group.across.Gather(row, table)
    return table


def _those_of(kept: Integers, indices: Integers, rows: NDArray[Any]) -> Part:
    """The rows of samples that are kept, in ascending order there."""
    if not len(kept):
        return Part(indices[:0], rows[:0])
    places = np.minimum(np.searchsorted(kept, indices), len(kept) - 1)
    among = kept[places] == indices
    return Part(places[among], rows[among])


def _own(group: Group, parts: list[Part]) -> Part:
    """What this rank has; nothing where another rank counts it."""
    return Part(*(np.concatenate(each) for each in zip(*(parts if group.counts else parts[:1]), strict=True)))


def _combined(comm: MPI.Comm, own: Part, shape: tuple[int, ...], missing: int, operation: MPI.Op) -> Any:
    """What all ranks of a communicator have, in one array on its first rank; None on the others.

    No rank holds more than two such arrays. missing: stands where no rank has anything; neutral to the operation.
    """
    found = np.full(shape, missing, own.rows.dtype)
    found[own.places] = own.rows
    whole = np.empty_like(found) if comm.rank == 0 else None
    comm.Reduce(found, whole, operation, 0)
    return whole
