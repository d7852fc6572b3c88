"""Connection of this rank to the watcher, the process that names a rank that was killed or has crashed.

Launchers kill the surviving ranks within milliseconds, and report a process id at best. Jobs of one rank, or of more
than MOST_RANKS, have no watcher. Neither has a job in which no connection can be made: the watcher is a convenience.
"""

import secrets
import socket
import subprocess
import sys
from contextlib import suppress
from os import environ
from pathlib import Path

from mpi4py import MPI

from hpcai.comm.reachability import group_interface
from hpcai.errors import LaunchError
from hpcai.machine import launcher

PROGRAM = Path(__file__).with_name("watcher.py")
MOST_RANKS = 4096  # one connection each
TIMEOUT = 2.0  # seconds to connect

_connections: list[socket.socket] = []
_processes: list[subprocess.Popen[bytes]] = []  # kept so that Python does not wait for the watcher


def begin(comm: MPI.Comm, inside_node: bool, host: str) -> None:
    """Connect all ranks to a watcher on the node of rank 0. Collective over `comm`.

    inside_node: whether all ranks are on one node; host: name of this rank's node.
    """
    if not 1 < comm.size <= MOST_RANKS:
        return
    try:
        _, address = group_interface(comm, inside_node, host)
    except LaunchError:  # on all ranks
        return
    started = comm.bcast(_start(address, host, comm.size) if comm.rank == 0 else None)
    if started and comm.rank > 0:
        address, port, token = started
        _connect(address, port, token, comm.rank, host)


def leave() -> None:
    """Tell the watcher that this rank ends in good order."""
    _say("bye")
    while _connections:
        _connections.pop().close()


def silence() -> None:
    """Tell the watcher to name no rank: the user asked for the end, or this rank says itself why the job ends."""
    _say("hush")


def _say(word: str) -> None:
    for connection in _connections:
        with suppress(OSError):  # the watcher ends after its line
            connection.sendall(f"{word}\n".encode())


def _start(address: str, host: str, ranks: int) -> tuple[str, int, str] | None:
    """Start the watcher and connect to it as rank 0; address, port and token, or None if the system refuses."""
    token = secrets.token_hex(16)
    try:
        with socket.create_server((address, 0), backlog=ranks) as listener:
            port = int(listener.getsockname()[1])
            _connect(address, port, token, 0, host)  # before the watcher runs, which ends with its last connection
            _processes.append(_spawn(listener.fileno(), token))
    except OSError:
        return None
    return address, port, token


def _spawn(descriptor: int, token: str) -> "subprocess.Popen[bytes]":
    """The watcher: no site packages, no variables of the launcher, and stderr of this rank as its only output."""
    return subprocess.Popen(
        [sys.executable, "-I", "-S", str(PROGRAM), str(descriptor), token],
        env=launcher.alone(environ),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        pass_fds=[descriptor],
        start_new_session=True,
    )


def _connect(address: str, port: int, token: str, rank: int, host: str) -> None:
    with suppress(OSError):
        connection = socket.create_connection((address, port), TIMEOUT)
        connection.sendall(f"{token} {rank} {host}\n".encode())
        _connections.append(connection)
