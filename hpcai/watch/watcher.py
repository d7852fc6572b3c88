"""The watcher of a node's ranks: it names the first that dies or is stuck, and ends the job.

`hpcai.comm.rank_watch` starts one on each node, in a session of its own, which survives the launcher's clean-up. Each
rank of the node holds a connection to it, which the kernel closes when the rank dies. The watcher on the node of rank 0
is the head: those of the other nodes are connected to it, and it speaks for all.
"""

import select
import signal
import socket
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import chain
from typing import Any

from hpcai import clock
from hpcai.watch import broken_off, left_behind, sentences
from hpcai.watch.connection import Connection, Message
from hpcai.watch.process import Process, started
from hpcai.watch.rank import Rank, Sight, as_message, from_message

TICK = 0.5  # seconds between two looks at the ranks
GRACE = 3.0  # seconds in which the launcher may end the other ranks before the watchers do
PATIENCE = 1.0  # seconds in which a rank ends by itself at a second signal, or another node reports a death
ANSWER = 3.0  # seconds in which the watchers of other nodes answer
STACK = 0.2  # seconds in which a rank prints its stacks
MOST_STACKS = 16  # ranks of a node whose stacks are printed


class Watcher:
    """The watcher of a node."""

    def __init__(self, listener: socket.socket, token: str, head: Connection | None) -> None:
        """head: connection to the watcher on the node of rank 0; None on that node."""
        self._listener, self._token, self._head = listener, token, head
        self._ranks: dict[Connection, Rank] = {}
        self._nodes: list[Connection] = []
        self._dead: Rank | None = None  # the last that has died
        self._gone: list[str] = []  # hosts whose watchers have ended without a word
        self._connections: dict[int, Connection] = {}
        self._events = select.epoll()
        self._events.register(listener, select.EPOLLIN)
        if head:
            self._add(head)
        self._launchers: list[Process] = []
        self._segments: set[str] = set()  # files that the MPI library made for the ranks
        self._told: list[list[Sight]] = []  # by the watchers of other nodes, of their ranks
        self._job: dict[str, Any] = {"watchdog": 0.0, "file": "", "resume": ""}
        self._ticked = clock.now()
        self._begun = self._concluded = self._busy = False
        self._takes: dict[str, Callable[[Connection, Any], None]] = {
            "rank": self._take_rank,
            "node": lambda node, _: self._nodes.append(node),
            "job": lambda _, told: self._job.update(told),
            "bye": self._take_bye,
            "reason": self._take_reason,
            "died": self._take_death,
            "overdue": lambda *_: self._inquire(),
            "ask": lambda *_: self._tell_head({"sights": [as_message(sight) for sight in self._seen()]}),
            "sights": lambda _, told: self._told.append([*map(from_message, told)]),
            "stacks": lambda *_: self._print_stacks(),
            "end": lambda _, grace: self._end(grace),
        }

    def run(self) -> None:
        """Watch until the ranks have ended; the head, until those of other nodes have as well."""
        while not self._concluded and not (self._begun and not self._ranks and not self._nodes):
            self._turn(TICK)
        self._tell_head({"bye": True})

    def _turn(self, seconds: float) -> None:
        """Wait for one event. Edge-triggered events come in their order, so that the first death is the first."""
        for number, _ in self._events.poll(seconds, maxevents=1):
            if number == self._listener.fileno():
                self._add(Connection(self._listener.accept()[0], self._token))
            else:
                self._read(self._connections[number])
        if clock.now() - self._ticked >= TICK:
            self._ticked = clock.now()  # time in which this process was stopped counts as one tick
            self._look()

    def _pump(self, seconds: float, more: Callable[[], object] = lambda: True) -> None:
        """Handle events for some time, or until no more are waited for."""
        until = clock.now() + seconds
        while more() and (left := until - clock.now()) > 0:
            self._turn(min(TICK, left))

    def _add(self, connection: Connection) -> None:
        self._connections[connection.socket.fileno()] = connection
        self._events.register(connection.socket, select.EPOLLIN | select.EPOLLET)

    def _read(self, connection: Connection) -> None:
        messages = connection.read()
        if not connection.open:
            self._connections.pop(connection.socket.fileno())
            connection.close()
        for message in messages:
            for word, told in message.items():
                if word in self._takes:
                    self._takes[word](connection, told)
        if not connection.open:
            self._lose(connection)

    def _lose(self, connection: Connection) -> None:
        """A connection has ended: of a rank that has died, of another watcher, or of a stranger."""
        if connection is self._head:
            self._concluded = True  # nobody asks any more
        if connection in self._nodes:
            self._nodes.remove(connection)
            self._gone.append(connection.hello["node"])
        rank = self._ranks.pop(connection, None)
        if rank and rank.leaving:
            rank.close()
            return
        self._dead = rank
        if rank is None or self._concluded:
            return
        sight, died = rank.sight(), sentences.death(rank.sight(), rank.process.exit_status)
        if self._launcher_ended():
            died = sentences.launcher_ended(sight)
            self._pump(PATIENCE if self._nodes else 0.0)  # it may have ended because a rank of another node has died
        gone = [*self._gone, *(node.hello["node"] for node in self._nodes if node.ended)]
        self._conclude(died + sentences.before(gone), sight)

    def _staying(self) -> bool:
        return any(not rank.leaving for rank in self._ranks.values())

    def _launcher_ended(self) -> bool:
        return any(not launcher.alive for launcher in self._launchers)

    def _take_rank(self, connection: Connection, told: Message) -> None:
        self._begun = True
        rank = Rank(told["rank"], told["host"], Process(told["pid"], told["start"]), told["page"])
        self._ranks[connection] = rank
        self._segments |= left_behind.segments(told["pid"])
        connection.send({"watched": True})
        self._launchers = self._launchers or [Process(pid, started(pid)) for pid in told["launchers"]]

    def _take_bye(self, connection: Connection, _: Any) -> None:
        """A rank ends in good order, as soon as its process lets go of the connection; or all of another node have."""
        if rank := self._ranks.get(connection):
            rank.leaving = True
            self._job["file"] = self._job["file"] if rank.rank else ""  # the result is complete
        self._nodes = [node for node in self._nodes if node is not connection]

    def _take_death(self, _: Connection, told: Message) -> None:
        what = told["what"] + (sentences.LAUNCHER_TOO if self._launcher_ended() else "")
        self._conclude(what, from_message(told["sight"]), whole=told.get("whole", False))

    def _take_reason(self, connection: Connection, told: Any) -> None:
        """A rank has said why the job ends: only the file is to say so too."""
        if self._concluded:
            return
        if isinstance(told, str):
            rank = self._ranks.get(connection)
            told = {"what": told, "sight": rank and as_message(rank.sight())}
        self._tell_head({"reason": told})
        broken_off.write(self._job, told["what"], told["sight"] and from_message(told["sight"]))
        self._end()

    def _look(self) -> None:
        if self._concluded or self._busy:
            return
        self._launchers = [launcher for launcher in self._launchers if launcher.alive]
        for rank in [*self._ranks.values()]:
            rank.pass_time(TICK)
            if number := rank.insisting():
                self._end_as_asked(rank, number)
        if not self._concluded and any(sight.overdue for sight in self._seen()):
            self._inquire()

    def _end_as_asked(self, rank: Rank, number: int) -> None:
        """A signal came twice: a rank that is not stuck ends by itself; after that this process ends the job."""
        self._busy = True
        self._pump(PATIENCE)
        self._conclude(sentences.insisted(rank.sight(), number), rank.sight(), 0.0, whole=True)
        self._busy = False

    def _seen(self) -> list[Sight]:
        return [rank.sight(self._job["watchdog"]) for rank in self._ranks.values()]

    def _inquire(self) -> None:
        """Some ranks are overdue: the head asks all watchers, and ends the job if some still are."""
        if self._head:
            self._tell_head({"overdue": True})
        elif not self._busy:
            self._busy, self._told = True, []
            self._tell_nodes({"ask": True})
            self._pump(ANSWER, lambda: len(self._told) < len(self._nodes))
            self._judge([*chain.from_iterable(self._told), *self._seen()])
            self._busy = False

    def _judge(self, sights: Sequence[Sight]) -> None:
        """End the job if ranks hold it up."""
        named = sentences.culprits(sights)
        if self._concluded or not named:
            return
        self._concluded = True
        self._tell_nodes({"stacks": True})
        self._print_stacks()
        if wait := sentences.waiting(sights, named):
            self._say(wait)
        self._concluded = False
        self._conclude(sentences.stuck(named), named[0], 0.0)

    def _print_stacks(self) -> None:
        """Let the ranks of this node that can print the stacks of their threads."""
        for rank in [rank for rank in self._ranks.values() if not rank.process.stopped][:MOST_STACKS]:
            self._say(f"stacks of rank {rank.rank} on {rank.host}:")
            rank.process.send(signal.SIGUSR2)
            self._pump(STACK)

    def _conclude(self, what: str, sight: Sight, grace: float = GRACE, whole: bool = False) -> None:
        """Say why the job ends, and end it. On other nodes than the head's: let the head do so. whole: it was asked."""
        if self._concluded:
            return
        self._tell_head({"died": {"what": what, "sight": as_message(sight), "whole": whole}})
        if not self._head:
            if self._dead:  # after a death Open MPI's mpirun reads no other rank's stderr
                self._dead.lend_stderr()
            if self._job["file"]:
                self._say(f"to go on: {self._job['resume']}")
            self._say(what)
            broken_off.write(self._job, what, sight)
        self._end(grace)

    def _end(self, grace: float = GRACE) -> None:
        """Wait for the launcher to end the ranks; then end those that are left, here and on the other nodes."""
        if self._concluded:
            return
        self._concluded = True
        self._tell_nodes({"end": grace})
        self._pump(grace, self._staying)
        for rank in self._ranks.values():
            if not grace or not rank.leaving or rank.process.stopped:
                rank.process.send(signal.SIGKILL)
        left_behind.remove(self._segments)

    def _tell_head(self, message: Message) -> None:
        if self._head:
            self._head.send(message)

    def _tell_nodes(self, message: Message) -> None:
        for node in self._nodes:
            node.send(message)

    def _say(self, text: str) -> None:
        with suppress(OSError):  # the launcher, which reads stderr, may be gone
            print(f"hpcai: {text}", file=sys.stderr, flush=True)
