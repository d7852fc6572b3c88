"""The watcher of a node whose job outlasts its ranks: it names those that are lost, and ends with rank 0 only."""

import os
import signal
from typing import Any

from hpcai.watch.connection import Connection
from hpcai.watch.rank import SLOWEST, Sight, as_message
from hpcai.watch.watcher import GRACE, PATIENCE, TICK, Watcher

TOLD = 30.0  # seconds in which the others go on without a rank, at least


class OutlastingWatcher(Watcher):
    """The watcher of a node; of ranks that are stuck it kills one, as if it had died."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._named: set[int] = set()  # ranks of which it is known that they are lost
        self._last: tuple[str, Sight] | None = None  # what was said last, until the others know of it
        self._since = 0.0
        self._ending = self._killed = False
        self._takes |= {"kill": lambda _, number: self._kill(number), "outlasted": self._take_outlasted}

    def _conclude(self, what: str, sight: Sight, grace: float = GRACE, whole: bool = False) -> None:
        if self._ending:
            return
        if whole or not sight.rank or self._launcher_ended():
            super()._conclude(what, sight, grace, whole)
        elif sight.rank not in self._named:
            self._named.add(sight.rank)
            self._last, self._since = None if self._killed else (what, sight), 0.0
            self._tell_head({"died": {"what": what, "sight": as_message(sight), "whole": False}})
            if not self._head:
                ends = "it is lost" if sight.group is None else "its group is lost"
                self._say(f"{what}; {ends}")
            if not grace:  # it is stuck
                self._tell_nodes({"kill": sight.rank})
                self._kill(sight.rank)

    def _lose(self, connection: Connection) -> None:
        rank = self._ranks.get(connection)
        status = rank.process.exit_status if rank else None
        self._killed = status is not None and os.WIFSIGNALED(status)  # of that the launcher tells the others
        super()._lose(connection)
        if self._dead and not self._ending:
            self._dead.close()  # the launcher may wait for the end of its output

    def _take_outlasted(self, *_: Any) -> None:
        """A rank goes on without those that are lost."""
        self._last = None

    def _look(self) -> None:
        """A tick has passed. Of a rank that exits by itself the launcher tells the others nothing: the job ends."""
        super()._look()
        self._since += TICK
        slowest = max((rank.slowest for rank in self._ranks.values()), default=0.0)
        if self._last and self._ranks and self._since > max(TOLD, SLOWEST * slowest):
            what, sight = self._last
            self._conclude(f"{what}; the others were not told of it", sight, whole=True)

    def _take_reason(self, connection: Connection, told: Any) -> None:
        """A rank other than the first ends for a reason that it prints itself."""
        rank = self._ranks.get(connection)
        if rank and rank.rank:
            self._named.add(rank.rank)
        else:
            super()._take_reason(connection, told)

    def _end(self, grace: float = GRACE) -> None:
        """End the job, in the end by its launcher: where all ranks are killed, it returns 0."""
        if self._ending or self._concluded:
            return
        self._ending = True
        self._pump(grace, self._staying)
        for launcher in self._launchers[:1] if self._staying() else ():
            launcher.send(signal.SIGTERM)
        super()._end(PATIENCE)

    def _kill(self, number: int) -> None:
        """Kill a rank, if it is on this node; the others, which wait for it, may take their time again."""
        for rank in self._ranks.values():
            if rank.rank == number:
                rank.process.send(signal.SIGKILL)
            rank.begin_anew()
