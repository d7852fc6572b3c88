"""Numbers of the nodes that ranks run on: by host, or for tests as many consecutive ranks as a variable says."""

import os

import numpy as np
from mpi4py import MPI

from hpcai.comm import communicators
from hpcai.errors import LaunchError

VARIABLE = "HPCAI_TEST_RANKS_PER_NODE"


def assumed_ranks() -> int | None:
    """Consecutive ranks of the job that count as a node for all-reduces of gradients; None: nodes are hosts."""
    text = os.environ.get(VARIABLE, "")
    if not text:
        return None
    if not (text.isdecimal() and int(text) > 0):
        raise LaunchError(f"{VARIABLE} is {text!r}; allowed: a whole number from 1 on, or nothing")
    return int(text)


def node_number(comm: MPI.Comm) -> int:
    """A number of this rank's node: of the first of its ranks in `comm`, counted in the job. Collective over `comm`."""
    assumed = assumed_ranks()
    if assumed is not None:
        return MPI.COMM_WORLD.rank // assumed
    local = communicators.of_node(comm)
    number: int = local.bcast(MPI.COMM_WORLD.rank)
    local.Free()
    return number


def node_numbers(comm: MPI.Comm) -> tuple[int, ...]:
    """The node of each rank of a communicator, the same on every rank. Collective; memory grows with the ranks.

    Numbers in buffers: 8 bytes a rank are sent, and no Python objects.
    """
    numbers = np.empty(comm.size, np.int64)
    comm.Allgather(np.array(node_number(comm), np.int64), numbers)
    return tuple(numbers.tolist())
