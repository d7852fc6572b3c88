"""The watcher names the first rank whose connection closes without a message, and prints nothing in all other cases."""

import json
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest

from hpcai.comm.rank_watch import PROGRAM, ROOT
from hpcai.watch.connection import LONGEST_HELLO
from hpcai.watch.process import started
from hpcai.watch.rank import Sight, as_message

TOKEN = "5ca1ab1e"
LINE = "hpcai: rank {} on {} died without a message (killed, or crashed)\n"
# No process of this test may be ended by the watcher.
UNSEEN = {"pid": 0, "start": -1, "page": -1, "launchers": []}


class Watched:
    """A watcher, and connections that stand for ranks."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        self._listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        descriptor = self._listener.fileno()
        command = [sys.executable, "-I", "-S", "-c", PROGRAM, ROOT]
        pipes = {"stdin": subprocess.PIPE, "stderr": subprocess.PIPE}
        self._process = subprocess.Popen(command, pass_fds=[descriptor], text=True, **pipes)  # type: ignore[call-overload]
        stack.callback(self._process.kill)
        self._process.stdin.write(
            json.dumps({"descriptor": descriptor, "token": TOKEN, "host": "", "outlasts": False, "head": None}) + "\n"
        )
        self._process.stdin.flush()
        self.ranks = [self.connect(TOKEN, rank) for rank in range(3)]
        for rank in self.ranks:
            assert json.loads(rank.recv(100)) == {"watched": True}

    def connect(self, token: str, rank: int) -> socket.socket:
        return self.joined(rank, {}, token)

    def joined(self, rank: int, process: dict[str, int], token: str = TOKEN) -> socket.socket:
        """A connection that stands for a rank, of a process that the watcher may end."""
        return self.join({"rank": {"rank": rank, "host": f"node-{rank}", **UNSEEN, **process}}, token)

    def join(self, message: dict[str, Any], token: str = TOKEN) -> socket.socket:
        """A connection that begins with a message."""
        connection = self._stack.enter_context(socket.create_connection(self._listener.getsockname()))
        say(connection, {"token": token, **message})
        return connection

    def settle(self) -> None:
        """Wait until all sent messages are read: events are processed in order, a stranger's connection is closed."""
        stranger = self._stack.enter_context(socket.create_connection(self._listener.getsockname()))
        stranger.sendall(b"x" * (LONGEST_HELLO + 1))
        with suppress(ConnectionResetError):
            assert stranger.recv(1) == b""

    def printed(self) -> str:
        """The output when it ends."""
        return str(self._process.communicate(timeout=30)[1])


def say(connection: socket.socket, message: dict[str, Any]) -> None:
    connection.sendall(json.dumps(message).encode() + b"\n")


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
        say(connection, {"bye": True})
        connection.close()
    assert watched.printed() == ""


@pytest.mark.parametrize("stopped", [True, False])
def test_a_rank_is_watched_until_its_process_has_ended(watched: Watched, stopped: bool, tmp_path: Path) -> None:
    """A rank that is stopped by a signal at its end would hold up the launcher for ever."""
    say(watched.ranks[0], {"job": {"watchdog": 1.0, "file": str(tmp_path / "BROKEN_OFF"), "resume": "go on"}})
    with subprocess.Popen(["sleep", "3"]) as sleeper:
        watched.ranks.append(watched.joined(3, {"pid": sleeper.pid, "start": started(sleeper.pid)}))
        if stopped:
            sleeper.send_signal(signal.SIGSTOP)
        for connection in watched.ranks:
            say(connection, {"bye": True})
        if not stopped:
            assert sleeper.wait(30) == 0
            for connection in watched.ranks:
                connection.close()
        line = watched.printed()
    assert sleeper.returncode == (-signal.SIGKILL if stopped else 0)
    assert bool(re.search(r"\nhpcai: rank 3 on node-3 was stopped by a signal for [12] s\n$", line)) == stopped
    assert stopped or not line
    assert not [*tmp_path.iterdir()]


def test_a_rank_that_dies_after_others_have_ended_is_named(watched: Watched) -> None:
    for connection in watched.ranks[:2]:
        say(connection, {"bye": True})
        connection.close()
    watched.ranks[2].close()
    assert watched.printed() == LINE.format(2, "node-2")


def test_after_an_announced_failure_no_rank_is_named_and_the_file_says_why(watched: Watched, tmp_path: Path) -> None:
    say(watched.ranks[0], {"job": {"file": str(tmp_path / "BROKEN_OFF"), "resume": "go on"}})
    watched.settle()
    say(watched.ranks[1], {"reason": "rank 1 says why"})
    for connection in watched.ranks:
        connection.close()
    assert watched.printed() == ""
    assert (tmp_path / "BROKEN_OFF").read_text().splitlines()[1:] == ["what: rank 1 says why", "resume: go on"]


@pytest.mark.parametrize("folder", ["", "removed"])
def test_the_folder_says_which_rank_died_if_there_is_one(watched: Watched, tmp_path: Path, folder: str) -> None:
    path = tmp_path / folder / "BROKEN_OFF"
    say(watched.ranks[0], {"job": {"file": str(path), "resume": "go on"}})
    watched.settle()
    watched.ranks[2].close()
    line = LINE.format(2, "node-2")
    watched.settle()
    for connection in watched.ranks:
        connection.close()
    assert watched.printed() == f"hpcai: to go on: go on\n{line}"
    assert path.exists() != bool(folder)
    assert folder or path.read_text().splitlines()[1] == f"what: {line.strip().removeprefix('hpcai: ')}"


def test_unknown_connections_are_neither_named_nor_obeyed(watched: Watched) -> None:
    stranger = watched.connect("guessed", 7)
    with suppress(OSError):
        say(stranger, {"reason": "a stranger's"})
    stranger.close()
    watched.settle()
    watched.ranks[1].close()
    assert watched.printed() == LINE.format(1, "node-1")


@pytest.mark.slow
@pytest.mark.parametrize(("bye", "more"), [(False, "; lost before it: node9"), (True, "")])
def test_a_host_that_was_lost_before_a_rank_is_named(watched: Watched, bye: bool, more: str) -> None:
    node = watched.join({"node": "node9"})
    if bye:
        say(node, {"bye": True})
    node.close()
    watched.settle()
    watched.ranks[0].close()
    assert watched.printed() == LINE.format(0, "node-0").removesuffix("\n") + more + "\n"


def test_other_watchers_report_and_the_first_report_counts(watched: Watched) -> None:
    node = watched.connect(TOKEN, 9)
    sight = as_message(Sight(9, "node-9", None))
    say(node, {"died": {"what": "rank 9 on node-9 was killed", "sight": sight}})
    watched.settle()
    for connection in watched.ranks:
        connection.close()
    assert watched.printed() == "hpcai: rank 9 on node-9 was killed\n"
