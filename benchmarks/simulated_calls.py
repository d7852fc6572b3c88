"""Calls of simulated ranks: whose turn it is, what was sent, and the collective calls that are under way."""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from greenlet import getcurrent, greenlet
from numpy.typing import NDArray

Counted = NDArray[np.int64]


class Differs(Exception):
    """Ranks do not make the same calls."""


class Turns:
    """Messages and bytes of each of so many ranks, sent and received, and splits; and the ranks that can go on.

    per_node: ranks on each node.
    """

    def __init__(self, ranks: int, per_node: int) -> None:
        self.ranks, self.per_node = ranks, per_node
        self.messages, self.nbytes, self.splits = (np.zeros(ranks, np.int64) for _ in range(3))
        self.ready: deque[greenlet] = deque()

    def wait(self) -> None:
        """Let others run until somebody makes this rank ready."""
        hub = getcurrent().parent
        assert hub is not None
        hub.switch()

    def forget(self) -> None:
        """What was counted."""
        for counted in (self.messages, self.nbytes, self.splits):
            counted[:] = 0

    def count(self, ranks: NDArray[np.int64], messages: Counted | int, nbytes: Counted | int) -> None:
        """Messages and bytes that some ranks send or receive."""
        self.messages[ranks] += messages
        self.nbytes[ranks] += nbytes


class Members:
    """The ranks of a communicator, and their collective call that is under way."""

    def __init__(self, turns: Turns, ranks: Sequence[int]) -> None:
        self.turns, self.ranks = turns, np.asarray(ranks, np.int64)
        self.size = len(self.ranks)
        self.inboxes: list[deque[tuple[int, bytes]]] = [deque() for _ in range(self.size)]
        self.idle: dict[int, greenlet] = {}  # ranks that wait for a message
        self._call = Call("", self.size)

    def meet(self, name: str, place: int, value: Any, finish: Callable[[list[Any]], Sequence[Any]]) -> Any:
        """A collective call; `finish` makes the result of each rank of the values of all."""
        call = self._call
        call.name = call.name or name
        if call.name != name:
            raise Differs(f"rank {self.ranks[place]} calls {name}, others {call.name}")
        call.values[place] = value
        call.missing -= 1
        if call.missing:
            call.waiting.append(getcurrent())
            self.turns.wait()
        else:
            self._call = Call("", self.size)
            call.results = finish(call.values)
            self.turns.ready.extend(call.waiting)
        return call.results[place]


class Call:
    """A collective call: what the ranks have given, and what they get."""

    def __init__(self, name: str, size: int) -> None:
        self.name, self.missing = name, size
        self.values: list[Any] = [None] * size
        self.results: Sequence[Any] = ()
        self.waiting: list[greenlet] = []
