"""Orderly early shutdown: a signal to any rank, or the time limit, stops every group after a step.

The request travels along a binary tree of the ranks by point-to-point messages: a rank has at most three neighbours,
whatever the size of the job, and one poll costs a microsecond.
"""

from collections.abc import Callable
from time import sleep

import numpy as np
from mpi4py import MPI

from hpcai import clock
from hpcai.comm import communicators
from hpcai.comm.communicators import RankLost
from hpcai.comm.world import is_loss
from hpcai.machine import signals

PAUSE = 0.002  # seconds between polls of a rank that only waits
INTERVAL = 0.1  # seconds between polls of a group that trains


class Shutdown:
    """Shutdown state of this rank. `cause` is empty until the rank knows of a shutdown request.

    lost: whether the cause is that a rank of the job is gone.

    Construction and `close` are collective.
    """

    def __init__(self, comm: MPI.Comm, limit: float) -> None:
        """`limit`: seconds since the process of rank 0 was started; 0 for none."""
        self.cause = ""
        self.lost = False
        self._comm = communicators.duplicate(comm)
        self.limit = limit
        self._heeds_limit = comm.rank == 0 and limit > 0
        around = ((comm.rank - 1) // 2, 2 * comm.rank + 1, 2 * comm.rank + 2)
        self._silent = {rank for rank in around if 0 <= rank < comm.size}
        self._neighbours = sorted(self._silent)
        self._sent: list[MPI.Request] = []

    def poll(self) -> bool:
        """Whether this rank knows of a shutdown request. Forwards it to its neighbours. Not collective."""
        if not self.cause:
            try:
                self._look()
            except MPI.Exception as error:
                if not is_loss(error):
                    raise
                self.lost, self.cause = True, "a rank was lost"
        return bool(self.cause)

    def _look(self) -> None:
        self.cause = self._signal() or self._overdue() or self._received()
        if self.cause:
            self._sent = [self._comm.Isend(self.cause.encode(), rank) for rank in self._neighbours]

    def agreed(self, comm: MPI.Comm) -> bool:
        """Whether any rank of `comm` knows of a shutdown request; afterwards all of them do. Collective.

        RankLost if a rank of `comm` is gone.
        """
        self.barrier(comm)
        if not comm.allreduce(int(self.poll()), MPI.MAX):
            return False
        while not self.poll():
            sleep(PAUSE)
        self._refuse_loss(comm)
        return True

    def barrier(self, comm: MPI.Comm) -> None:
        """Barrier in which early ranks sleep, but keep forwarding requests. Collective.

        RankLost if a rank of `comm` is gone.
        """
        request = comm.Ibarrier()
        while not request.Test():
            self.poll()
            self._refuse_loss(comm)
            sleep(PAUSE)

    def _refuse_loss(self, comm: MPI.Comm) -> None:
        """RankLost if a rank of the communicator is gone: a group that has all of its own goes on to a checkpoint."""
        if self.lost and (comm.Get_failed().size or comm.Is_revoked()):
            raise RankLost(self.cause)

    def close(self) -> None:
        """Receive the messages that are still on the way. Collective over all ranks."""
        if self.agreed(self._comm):
            while self._silent:
                self._received()
            MPI.Request.Waitall(self._sent)
        self._comm.Free()

    def _signal(self) -> str:
        name = signals.received_signal()
        return f"{name} on rank {MPI.COMM_WORLD.rank}" if name else ""

    def _overdue(self) -> str:
        should_stop = self._heeds_limit and self.limit <= clock.since_process_start()
        return f"TIMELIMIT of {self.limit:g} s" if should_stop else ""

    def _received(self) -> str:
        status = MPI.Status()
        if not self._silent or not self._comm.Iprobe(status=status):
            return ""
        message = bytearray(status.Get_count())
        self._comm.Recv(message, status.source)
        self._silent.discard(status.source)
        return message.decode()


def _never() -> bool:
    return False


class StopCheck:
    """Stops all ranks of a group after the same step, or lets them pause; polls at most ten times a second.

    `pausing`: whether the last answer was to pause and not to stop.

    The number of steps between two checks follows from the slowest rank's step time, so that all ranks agree on it.
    """

    def __init__(
        self,
        shutdown: Shutdown,
        comm: MPI.Comm,
        report: Callable[[], None],
        should_stop: Callable[[], bool] = _never,
        should_pause: Callable[[], bool] = _never,
    ) -> None:
        """`comm`: the ranks of the group. `should_stop` and `should_pause` may return True on any of them.

        `report` is called at each check.
        """
        self._shutdown = shutdown
        self._should_stop, self._should_pause = should_stop, should_pause
        self.pausing = False
        self._comm = comm
        self._report = report
        self._every = self._left = 1
        self._asked = clock.now()

    def due(self) -> bool:
        """Whether to stop or to pause now; called by all ranks of the group after each step."""
        self._left -= 1
        return self._left == 0 and self._ask()

    def _ask(self) -> bool:
        stops, pauses = self._shutdown.poll() or self._should_stop(), self._should_pause()
        answer = np.array([stops, pauses, clock.now() - self._asked], np.float64)
        if self._comm.size > 1:
            self._comm.Allreduce(MPI.IN_PLACE, answer, MPI.MAX)
        self._report()
        wanted = self._every * INTERVAL / max(answer[2], 1e-6)
        self._every = self._left = int(min(max(wanted, 1), 2 * self._every))
        self._asked = clock.now()
        self.pausing = bool(answer[1] and not answer[0])
        return bool(answer[0]) or self.pausing
