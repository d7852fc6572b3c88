"""Clock synchronisation: a common time origin of the ranks of a communicator, each on its own clock."""

from mpi4py import MPI

from hpcai import clock

APART, ATTEMPTS = 0.05, 200  # largest skew in seconds; attempts to stay below it


def common_start(comm: MPI.Comm) -> float:
    """Reading of this rank's clock at a time that is the same for all ranks to within `APART`. Collective.

    A rank that is delayed after the first barrier makes all others wait at the second: such an attempt is repeated.
    """
    for _ in range(ATTEMPTS):
        comm.Barrier()
        begin = clock.now()
        comm.Barrier()
        if comm.allreduce(clock.now() - begin, MPI.MAX) < APART:
            break
    return begin
