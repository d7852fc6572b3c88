"""A moment from which the ranks of a communicator measure time together, each by its own clock."""

from mpi4py import MPI

from hpcai import clock

APART, ATTEMPTS = 0.05, 200  # seconds, and how often that is tried for


def common_start(comm: MPI.Comm) -> float:
    """The clock of this rank at a moment that is the same for all ranks to within `APART`. Collective.

    A rank that was held up behind one barrier makes all others wait at the next: that moment does not count.
    """
    for _ in range(ATTEMPTS):
        comm.Barrier()
        begin = clock.now()
        comm.Barrier()
        if comm.allreduce(clock.now() - begin, MPI.MAX) < APART:
            break
    return begin
