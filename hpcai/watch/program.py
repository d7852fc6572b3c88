"""Program of the watcher of a node, which `hpcai.comm.rank_watch` starts.

It reads one line: the file descriptor of its listening socket, the token that a connection shows first, the name of the
host, whether the job outlasts its ranks, and on other nodes than that of rank 0 the head's address, port and token.
"""

import json
import signal
import socket
import sys
from contextlib import suppress

from hpcai.watch.connection import Connection
from hpcai.watch.outlasting import OutlastingWatcher
from hpcai.watch.watcher import Watcher

CONNECT = 2.0  # seconds to connect to the head
IGNORED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)  # which are for the ranks


def main() -> None:
    """Watch the ranks of this node, as standard input says."""
    for number in IGNORED:
        signal.signal(number, signal.SIG_IGN)
    told = json.loads(sys.stdin.buffer.readline())
    with suppress(ConnectionError):  # a job that has ended needs no watcher
        head = _connected(told["host"], *told["head"]) if told["head"] else None
        kind = OutlastingWatcher if told["outlasts"] else Watcher
        kind(socket.socket(fileno=told["descriptor"]), told["token"], head).run()


def _connected(host: str, address: str, port: int, token: str) -> Connection:
    """The connection to the head; ConnectionError if it does not answer."""
    try:
        connection = Connection(socket.create_connection((address, port), CONNECT))
        connection.send({"token": token, "node": host})
    except OSError as error:
        raise ConnectionError(f"no watcher answers at {address}") from error
    return connection
