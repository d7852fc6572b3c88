"""The lines between the groups' leaders and the coordinator: JSON over MPI, never waiting.

Rank 0 has no process or thread to spare for it: it takes messages in between its own training steps.
"""

from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, Protocol

from mpi4py import MPI

from hpcai.search.coordinator import Answer, Coordinator
from hpcai.search.messages import decoded, encoded

Json = dict[str, Any]


class Line(Protocol):
    """A leader's line to the coordinator."""

    def send(self, message: Json, *lines: bytes) -> None:
        """Hand a message over, and lines of JSON that go with it; does not wait."""

    def receive(self) -> Json | None:
        """The next answer, if one is there."""


class _Outbox:
    """Messages on their way, kept until MPI has sent them."""

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
    """The next message on a communicator, if one is there."""
    if not comm.Iprobe(source, status=status):
        return None
    message = bytearray(status.Get_count())
    comm.Recv(message, status.source)
    return message


class Desk:
    """The coordinator's end of all lines, on rank 0 of the leaders; rank 0's own leader has its line here as well."""

    def __init__(
        self, comm: MPI.Comm, coordinator: Coordinator, now: Callable[[], float], ended: Callable[[float], str]
    ) -> None:
        """`comm`: the leaders, by worker; `now`: seconds since the search began; `ended`: why it is to end then."""
        self.coordinator = coordinator
        self.busy_seconds = 0.0
        self._comm = comm
        self._now, self._ended = now, ended
        self._outbox = _Outbox(comm)
        self._status = MPI.Status()
        self._own: deque[bytes] = deque()
        self._over = False

    def serve(self) -> None:
        """Answer all messages that are there. A microsecond where there is none."""
        while (message := _arrived(self._comm, MPI.ANY_SOURCE, self._status)) is not None:
            self._take(decoded(message))
        if not self._over and (why := self._ended(self._now())):
            self._over = True
            self._deliver(self.coordinator.end(why, self._now()))

    def send(self, message: Json, *lines: bytes) -> None:
        """A message of rank 0's own leader."""
        self._take(decoded(encoded(message, *lines)))

    def receive(self) -> Json | None:
        """An answer to rank 0's own leader."""
        self.serve()
        return decoded(self._own.popleft()) if self._own else None

    def finish(self) -> None:
        """Wait until all answers are sent."""
        self._outbox.finish()

    def _take(self, message: Json) -> None:
        begin = self._now()
        self._deliver(self.coordinator.handle(message, begin))
        self.busy_seconds += self._now() - begin

    def _deliver(self, answers: Iterable[Answer]) -> None:
        for worker, text in answers:
            if worker == self._comm.rank:
                self._own.append(text)
            else:
                self._outbox.send(text, worker)


class Remote:
    """The line of a leader on another rank."""

    def __init__(self, comm: MPI.Comm) -> None:
        """`comm`: the leaders, by worker."""
        self._comm = comm
        self._outbox = _Outbox(comm)
        self._status = MPI.Status()

    def send(self, message: Json, *lines: bytes) -> None:
        """Towards rank 0."""
        self._outbox.send(encoded(message, *lines), 0)

    def receive(self) -> Json | None:
        """From rank 0."""
        message = _arrived(self._comm, 0, self._status)
        return None if message is None else decoded(message)

    def finish(self) -> None:
        """Wait until all messages are sent."""
        self._outbox.finish()
