"""Program that names the first rank of a job that dies without a message. Standard library only.

`rank_watch` starts it in a session of its own, which survives the launcher's clean-up: that kills the other ranks
milliseconds later. Each rank holds a TCP connection to it. The kernel closes the connection when the rank dies.

Arguments: file descriptor of the listening socket, token that a rank sends first. Lines that a rank sends:
`TOKEN RANK HOST` at the beginning, `bye` before it ends in good order, `hush` when it has said itself why the job ends.
"""

import select
import socket
import sys
from contextlib import suppress

LONGEST = 4096  # bytes that are read of a connection


class Connection:
    """One connection, by a rank or by a stranger."""

    def __init__(self, accepted: socket.socket) -> None:
        accepted.setblocking(False)
        self.socket, self.received = accepted, b""

    def read(self) -> bool:
        """Read all that has arrived; whether the connection is to stay open."""
        while len(self.received) < LONGEST:
            try:
                part = self.socket.recv(LONGEST)
            except BlockingIOError:
                return True
            except OSError:
                return False
            if not part:
                return False
            self.received += part
        return False

    def lines(self, token: str) -> list[str]:
        """`RANK HOST` and the words after it; none of a stranger, who lacks the token."""
        first, *words = self.received.decode("ascii", "replace").split("\n")
        key, _, name = first.partition(" ")
        return [name, *words] if key == token else []


def first_death(listener: socket.socket, token: str) -> str:
    """`RANK HOST` of the first rank whose connection closes without `bye`; empty if there is none.

    Edge-triggered events come in the order in which they happened, so that one at a time gives the first of the deaths.
    """
    connections: dict[int, Connection] = {}
    with select.epoll() as events:
        events.register(listener, select.EPOLLIN)
        while True:
            ((number, _),) = events.poll(maxevents=1)
            if number == listener.fileno():
                accepted = listener.accept()[0]
                connections[accepted.fileno()] = Connection(accepted)
                events.register(accepted, select.EPOLLIN | select.EPOLLET)
                continue
            is_open = connections[number].read()
            lines = connections[number].lines(token)
            if not is_open:
                connections.pop(number).socket.close()
            if lines and not is_open and "bye" not in lines and "hush" not in lines:
                return lines[0]
            if "hush" in lines or not connections:
                return ""


def main(descriptor: int, token: str) -> None:
    """Wait for the first death or for the end of all ranks, and print one line in the first case."""
    rank, _, host = first_death(socket.socket(fileno=descriptor), token).partition(" ")
    if rank:
        with suppress(OSError):  # the launcher, which reads stderr, may be gone
            print(f"hpcai: rank {rank} on {host} died without a message (killed, or crashed)", file=sys.stderr)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
