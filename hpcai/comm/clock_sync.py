"""Clock synchronisation: a common time origin of the ranks of a communicator, each on its own clock."""

from datetime import datetime, timedelta
from typing import NamedTuple

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


class CommonClock(NamedTuple):
    """UTC of the readings of this rank's clock, by the system clock of the first rank of a communicator.

    reading: of this rank's clock at the instant `utc`, to within `APART`.
    """

    reading: float
    utc: datetime

    def instant(self, reading: float) -> datetime:
        """UTC of a reading of this rank's clock, before or after that of the common clock."""
        return self.utc + timedelta(seconds=reading - self.reading)


def common_clock(comm: MPI.Comm) -> CommonClock:
    """The clock that the ranks of `comm` share. Collective."""
    begin = common_start(comm)
    first: datetime = comm.bcast(clock.utc_instant() - timedelta(seconds=clock.now() - begin))
    return CommonClock(begin, first)
