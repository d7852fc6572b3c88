"""Connection of this rank to the watcher of its node, the process that names a rank that has died or is stuck.

Launchers kill the surviving ranks within milliseconds, and report a process id at best. Jobs of more than MOST_NODES
nodes have no watcher. Neither has a node on which no connection can be made: there the job runs without.
"""

import os
import secrets
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from mpi4py import MPI

import hpcai
from hpcai.comm import communicators
from hpcai.comm.interfaces import interfaces
from hpcai.comm.reachability import group_interface
from hpcai.errors import LaunchError
from hpcai.machine import launcher
from hpcai.watch import activity
from hpcai.watch.connection import line_of
from hpcai.watch.process import parent, started

# An isolated Python does not search the current directory, and this project after everything else.
PROGRAM = "import sys; sys.path.append(sys.argv[1]); from hpcai.watch.program import main; main()"
ROOT = str(Path(hpcai.__file__).parent.parent)
MOST_NODES = 4096  # one connection each to the head
TIMEOUT = 2.0  # seconds to connect
READY = 10.0  # seconds until a watcher has begun, on a node with more ranks than processors
LOOPBACK = "127.0.0.1"

_connections: list[socket.socket] = []
_processes: list[subprocess.Popen[bytes]] = []  # kept so that Python does not wait for the watcher


def begin(comm: MPI.Comm, node: MPI.Comm, host: str) -> tuple[str, str]:
    """Start a watcher on each node and connect its ranks to it. Collective over `comm`.

    comm: all ranks; node: those of this node, whose name is host. Name and address of the interface by which the other
    nodes reach this one; empty of one node, of more than MOST_NODES, or if they do not.
    """
    nodes, interface = comm.allreduce(int(node.rank == 0)), ("", "")
    try:
        if 1 < nodes <= MOST_NODES:
            interface = group_interface(comm, False, host)
    except LaunchError:  # on all ranks
        return interface
    if nodes <= MOST_NODES:
        _begin(comm, node, host, nodes, interface[1] or _local_address())
    return interface


def _begin(comm: MPI.Comm, node: MPI.Comm, host: str, nodes: int, address: str) -> None:
    """The same, with the address at which the watcher of rank 0 listens."""
    waiting = node.size + (nodes if nodes > 1 else 0)
    head = comm.bcast(_start(address, waiting, comm.rank, host, None) if comm.rank == 0 else None)
    own = head if comm.rank == 0 else None
    if head and node.rank == 0 and comm.rank > 0:
        own = _start(_local_address(), node.size, comm.rank, host, head)
    own = node.bcast(own)
    if own and node.rank > 0:
        _connect(own[0], own[1], own[2], comm.rank, host)
    _await_watcher()


def watch(seconds: float) -> None:
    """State after how many seconds without a step a rank is stuck; 0 for never."""
    _say({"job": {"watchdog": seconds}})


def keep_in(path: str, resume: str) -> None:
    """Name the file that says why the job ended if it does not end in good order, and how to go on. Of rank 0."""
    _say({"job": {"file": path, "resume": resume}})


def explain(reason: str) -> None:
    """State why the job ends: this rank prints it itself, so that the watcher only writes its file."""
    _say({"reason": reason})


def outlasted() -> None:
    """Tell the watcher that this rank goes on without those that are lost."""
    _say({"outlasted": True})


def leave() -> None:
    """Tell the watcher that this rank ends in good order. The connection closes with the process."""
    _say({"bye": True})


def _say(message: dict[str, Any]) -> None:
    for connection in _connections:
        with suppress(OSError):  # the watcher ends after its line
            connection.sendall(line_of(message))


Started = tuple[str, int, str]  # address, port and token of a watcher


def _start(address: str, most: int, rank: int, host: str, head: Started | None) -> Started | None:
    """Start a watcher and connect to it as the first rank of this node; None if the system refuses.

    address: at which it listens; most: connections that may wait.
    """
    token, outlasts = secrets.token_hex(16), communicators.outlast()
    try:
        with socket.create_server((address, 0), backlog=most) as listener:
            port = int(listener.getsockname()[1])
            _connect(address, port, token, rank, host)  # before the watcher runs, which ends with its last connection
            _spawn(listener.fileno(), {"token": token, "host": host, "outlasts": outlasts, "head": head})
    except OSError:
        return None
    return address, port, token


def _spawn(descriptor: int, told: dict[str, Any]) -> None:
    """Start the watcher: no site packages, no variables of the launcher, stderr of this rank as its only output.

    Other users see arguments of a program, and not what it reads.
    """
    process = subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", PROGRAM, ROOT],
        env=launcher.alone(os.environ),
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        pass_fds=[descriptor],
        start_new_session=True,
    )
    _processes.append(process)
    assert process.stdin
    with process.stdin as pipe:
        pipe.write(line_of({"descriptor": descriptor, **told}))


def _local_address() -> str:
    """An address that the ranks of this node reach: of the loopback interface, if there is one."""
    own = interfaces().values()
    return next((address for address in own if address.startswith("127.")), next(iter(own), LOOPBACK))


def _connect(address: str, port: int, token: str, rank: int, host: str) -> None:
    """Connect to the watcher of this node, and show it the page with this rank's activity."""
    page = -1
    with suppress(OSError):
        page = activity.open_page()
    with suppress(OSError):
        connection = socket.create_connection((address, port), TIMEOUT)
        own = os.getpid()
        facts = {"rank": rank, "host": host, "pid": own, "start": started(own), "page": page, "launchers": _launchers()}
        connection.sendall(line_of({"token": token, "rank": facts}))
        _connections.append(connection)


def _await_watcher() -> None:
    """Wait until this rank is watched: of two ranks that die before that, the watcher may name the wrong one."""
    for connection in _connections:
        with suppress(OSError):
            connection.settimeout(READY)
            connection.recv(1)
            connection.settimeout(TIMEOUT)


def _launchers() -> list[int]:
    """Numbers of the processes that started this one: the launcher, and on its node a proxy of it."""
    return [os.getppid(), parent(os.getppid())] if launcher.declared_sizes(os.environ) else []
