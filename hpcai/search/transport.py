"""Transport between the group leaders and the coordinator: JSON messages by non-blocking MPI.

No process or thread of rank 0 is reserved for the coordinator: rank 0 receives messages between its training steps.
"""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from mpi4py import MPI

from hpcai.search.coordinator import Coordinator, Reply
from hpcai.search.messages import Answer, Request, decoded_answer, decoded_request, encoded


class Transport(Protocol):
    """A leader's connection to the coordinator."""

    def send(self, message: Request, *lines: bytes) -> None:
        """Send a message, and lines of JSON that the coordinator passes on; does not wait."""

    def receive(self) -> Answer | None:
        """The next answer, if one has arrived."""


class _Outbox:
    """Messages that MPI is sending, kept until it has sent them."""

    def __init__(self, comm: MPI.Comm) -> None:
        self._comm = comm
        self._sent: deque[tuple[MPI.Request, bytes]] = deque()

    def send(self, text: bytes, rank: int) -> None:
        self._sent.append((self._comm.Isend(text, rank), text))
        while self._sent and self._sent[0][0].Test():
            self._sent.popleft()

    def finish(self) -> None:
        """Wait until all are sent."""
        MPI.Request.Waitall([request for request, _ in self._sent])
        self._sent.clear()


def _arrived(comm: MPI.Comm, source: int, status: MPI.Status) -> bytearray | None:
    """The next message on a communicator, if one has arrived."""
    if not comm.Iprobe(source, status=status):
        return None
    message = bytearray(status.Get_count())
    comm.Recv(message, status.source)
    return message


class CoordinatorTransport:
    """The coordinator's end of all connections, and the connection of rank 0's own leader, which needs no MPI."""

    def __init__(
        self,
        comm: MPI.Comm,
        coordinator: Coordinator,
        now: Callable[[], float],
        ended: Callable[[float], str],
        workers: Sequence[int] | None = None,
    ) -> None:
        """`now`: seconds since the search began; `ended`: why it is to end then.

        comm: the leaders; workers: their numbers by rank, by default the ranks.
        """
        self._ranks = {worker: rank for rank, worker in enumerate(workers or range(comm.size))}
        self.coordinator = coordinator
        self.busy_seconds = 0.0
        self._comm = comm
        self._now, self._ended = now, ended
        self._outbox = _Outbox(comm)
        self._status = MPI.Status()
        self._own_answers: deque[bytes] = deque()
        self._over = False

    def serve(self) -> None:
        """Answer all messages that have arrived. Takes a microsecond where there is none."""
        while (message := _arrived(self._comm, MPI.ANY_SOURCE, self._status)) is not None:
            self._handle(message)
        if not self._over and (why := self._ended(self._now())):
            self._over = True
            self._deliver(self.coordinator.end(why, self._now()))

    def send(self, message: Request, *lines: bytes) -> None:
        """Handle a message of rank 0's own leader."""
        self._handle(encoded(message, *lines))

    def receive(self) -> Answer | None:
        """The next answer to rank 0's own leader, if there is one."""
        self.serve()
        return decoded_answer(self._own_answers.popleft()) if self._own_answers else None

    def finish(self) -> None:
        """Wait until all answers are sent."""
        self._outbox.finish()

    def _handle(self, text: bytes | bytearray) -> None:
        message, lines = decoded_request(text)
        begin = self._now()
        self._deliver(self.coordinator.handle(message, begin, lines))
        self.busy_seconds += self._now() - begin

    def _deliver(self, replies: Iterable[Reply]) -> None:
        for worker, text in replies:
            if self._ranks[worker] == self._comm.rank:
                self._own_answers.append(text)
            else:
                self._outbox.send(text, self._ranks[worker])


class LeaderTransport:
    """The connection of a leader on another rank than 0."""

    def __init__(self, comm: MPI.Comm) -> None:
        """`comm`: the leaders, of which the first has the coordinator."""
        self._comm = comm
        self._outbox = _Outbox(comm)
        self._status = MPI.Status()

    def send(self, message: Request, *lines: bytes) -> None:
        """Send a message to rank 0; does not wait."""
        self._outbox.send(encoded(message, *lines), 0)

    def receive(self) -> Answer | None:
        """The next answer from rank 0, if one has arrived."""
        message = _arrived(self._comm, 0, self._status)
        return None if message is None else decoded_answer(message)

    def finish(self) -> None:
        """Wait until all messages are sent."""
        self._outbox.finish()
