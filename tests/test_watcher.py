"""The watcher names the first rank whose connection closes without a message, and prints nothing in all other cases."""

import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, suppress

import pytest

from hpcai.comm.rank_watch import PROGRAM
from hpcai.comm.watcher import LONGEST

TOKEN = "5ca1ab1e"
LINE = "hpcai: rank {} on {} died without a message (killed, or crashed)\n"


class Watched:
    """A watcher, and connections that stand for ranks."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        self._listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        self.ranks = [self.connect(TOKEN, 0)]
        descriptor = self._listener.fileno()
        command = [sys.executable, "-I", "-S", str(PROGRAM), str(descriptor), TOKEN]
        self._process = subprocess.Popen(command, stderr=subprocess.PIPE, pass_fds=[descriptor], text=True)
        stack.callback(self._process.kill)
        self.ranks += [self.connect(TOKEN, 1), self.connect(TOKEN, 2)]
        self.settle()

    def connect(self, token: str, rank: int) -> socket.socket:
        connection = self._stack.enter_context(socket.create_connection(self._listener.getsockname()))
        connection.sendall(f"{token} {rank} node-{rank}\n".encode())
        return connection

    def settle(self) -> None:
        """Wait until all sent messages are read: events are processed in order, too long ones end a connection."""
        stranger = self.connect("guessed", 7)
        stranger.sendall(b"x" * LONGEST)
        with suppress(ConnectionResetError):
            assert stranger.recv(1) == b""

    def printed(self) -> str:
        """The output when it ends."""
        return self._process.communicate(timeout=30)[1]


@pytest.fixture
def watched() -> Iterator[Watched]:
    with ExitStack() as stack:
        yield Watched(stack)


@pytest.mark.parametrize("rank", [0, 2])
def test_the_first_rank_that_dies_is_named_and_later_ones_are_not(watched: Watched, rank: int) -> None:
    for one in [rank, *({0, 1, 2} - {rank})]:
        watched.ranks[one].close()
    assert watched.printed() == LINE.format(rank, f"node-{rank}")


def test_ranks_that_announce_their_end_are_not_named(watched: Watched) -> None:
    for connection in watched.ranks:
        connection.sendall(b"bye\n")
        connection.close()
    assert watched.printed() == ""


def test_a_rank_that_dies_after_others_have_ended_is_named(watched: Watched) -> None:
    for connection in watched.ranks[:2]:
        connection.sendall(b"bye\n")
        connection.close()
    watched.ranks[2].close()
    assert watched.printed() == LINE.format(2, "node-2")


def test_after_an_announced_failure_no_rank_is_named(watched: Watched) -> None:
    watched.ranks[1].sendall(b"hush\n")
    assert watched.printed() == ""


def test_unknown_connections_are_neither_named_nor_obeyed(watched: Watched) -> None:
    stranger = watched.connect("guessed", 7)
    stranger.sendall(b"hush\n")
    stranger.close()
    watched.settle()
    watched.ranks[1].close()
    assert watched.printed() == LINE.format(1, "node-1")
