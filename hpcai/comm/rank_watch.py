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

from hpcai.comm.interfaces import candidate_interfaces, interfaces, wanted_interface
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
    started = comm.bcast(_start(inside_node, host, comm.size) if comm.rank == 0 else None)
    if started and comm.rank > 0:
        addresses, port, token = started
        _connect(addresses, port, token, comm.rank, host)


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


def _start(inside_node: bool, host: str, ranks: int) -> tuple[list[str], int, str] | None:
    """Start the watcher and connect to it as rank 0; addresses, port and token, or None if the system refuses.

    Of several addresses some may lead nowhere from other hosts: it listens on all of them.
    """
    token = secrets.token_hex(8)
    try:
        addresses = [*candidate_interfaces(interfaces(), inside_node, wanted_interface(), host).values()]
        with socket.create_server((addresses[0] if inside_node else "", 0), backlog=ranks) as listener:
            port = int(listener.getsockname()[1])
            _connect(addresses, port, token, 0, host)  # before the watcher runs, which ends with its last connection
            _processes.append(_spawn(listener.fileno(), token))
    except (OSError, LaunchError):
        return None
    return addresses, port, token


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


def _connect(addresses: list[str], port: int, token: str, rank: int, host: str) -> None:
    """Connect to the first of the addresses that answers."""
    for address in addresses:
        with suppress(OSError):
            connection = socket.create_connection((address, port), TIMEOUT)
            connection.sendall(f"{token} {rank} {host}\n".encode())
            _connections.append(connection)
            return
