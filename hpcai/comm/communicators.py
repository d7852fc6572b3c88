"""Communicators of some ranks of another one. A lost rank interrupts calls on them, where the job outlasts its ranks.

All ranks of the other communicator get theirs, or all learn of the loss: a rank that is left out of what others have
could not interrupt them.
"""

import os
from collections.abc import Callable

from mpi4py import MPI

from hpcai.machine import launcher

_revocable: list[MPI.Comm] = []


class RankLost(Exception):
    """A rank of the job is gone, and this one has noticed between two calls of MPI."""


def outlast() -> bool:
    """Whether the job goes on if a rank is lost; the same on every rank."""
    return launcher.outlasts(os.environ)


def split(comm: MPI.Comm, color: int, key: int) -> MPI.Comm:
    """The ranks of the same color, in the order of their keys; COMM_NULL for MPI.UNDEFINED. Collective over `comm`."""
    return _made(comm, lambda: comm.Split(color, key))


def of_node(comm: MPI.Comm) -> MPI.Comm:
    """The ranks that share this rank's node. Collective over `comm`."""
    return _made(comm, lambda: comm.Split_type(MPI.COMM_TYPE_SHARED))


def duplicate(comm: MPI.Comm) -> MPI.Comm:
    """The same ranks again: messages of one do not meet those of the other. Collective over `comm`."""
    return _made(comm, comm.Dup)


def revoke() -> None:
    """Interrupt the calls of all ranks on the communicators made so far, of which this rank has not freed its own."""
    for comm in _revocable:
        if comm != MPI.COMM_NULL:
            comm.Revoke()
    _revocable.clear()


def _made(comm: MPI.Comm, make: Callable[[], MPI.Comm]) -> MPI.Comm:
    if not outlast():
        return make()
    made, error = MPI.COMM_NULL, None
    try:
        made = make()
    except MPI.Exception as found:
        error = found
    there = [each for each in (*_revocable, made) if each != MPI.COMM_NULL]
    _revocable[:] = there
    if not comm.Agree(int(error is None)):
        raise error or RankLost("a rank was lost")
    return made
