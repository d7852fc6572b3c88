"""Times one collective of one size after the other, and checks every number that they deliver."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from mpi4py import MPI

from hpcai import clock
from hpcai.comm.buffers import UNWRITTEN, Buffers, CollectivePatterns, divide, pool_elements
from hpcai.comm.collectives import Backend, Call
from hpcai.comm.scopes import Scope
from hpcai.comm.world import broadcast
from hpcai.result.collectives import COLLECTIVES, LEAST_ITERATIONS, TYPE, size

SECONDS = 0.04  # of the timed calls of a row, where there is room for so many
TRIED = 0.004  # seconds that tell how many calls that will be
SLOW = 0.1  # seconds: of a call that takes so long, the warm-up tells enough
MOST_CALLS = 8192


@dataclass(frozen=True)
class CollectiveTiming:
    """Time and correctness of one collective of one size; the same on every rank of the scope.

    by: backend; nbytes: size of the collective as nccl-tests counts it; count: elements of one rank, see
    result.collectives; seconds: of one call, on the slowest rank; wrong: elements with a wrong value on all ranks.
    """

    collective: str
    scope: str
    by: str
    ranks: int
    nbytes: int
    count: int
    type: str
    redop: str
    root: int
    seconds: float
    iterations: int
    wrong: int


class CollectiveMemory:
    """Memory on one device for all collectives of a scope, made once: where they work, and what they shall deliver."""

    def __init__(self, scope: Scope, largest: int, device: torch.device) -> None:
        """`largest`: bytes of the largest collective."""
        self.pool = torch.full((pool_elements(largest),), UNWRITTEN, device=device)
        self.payload = CollectivePatterns(scope.own.size, scope.own.rank, device)


class CollectiveTimer:
    """Measures the collectives of one backend over one scope. Collective over the scope's members."""

    def __init__(self, backend: Backend, scope: Scope, room: CollectiveMemory) -> None:
        self._backend = backend
        self._scope = scope
        self._room = room

    def lacks(self, collective: str) -> str:
        """Why the backend has no such collective, in its own words; empty if it has. The same on every rank."""
        slots = divide(self._room.pool, collective, 1, self._scope.ranks)
        reason = ""
        try:
            self._timed(self._prepared(collective, slots, 1))
        except RuntimeError as error:
            if "support" not in str(error) and not isinstance(error, NotImplementedError):
                raise
            reason = str(error).strip().split("\n")[0] or type(error).__name__
        return str(broadcast(self._scope.members, reason))

    def row(self, collective: str, count: int) -> CollectiveTiming:
        """Checked, then timed, and checked again. `count` as result.collectives has it, the same on every rank."""
        slots, payload = divide(self._room.pool, collective, count, self._scope.ranks), self._room.payload
        payload.fill(slots, collective, 1)
        seconds = self._timed(self._prepared(collective, slots, 1))
        wrong = payload.wrong(slots, collective, 1)
        iterations = self._iterations(lambda calls: self._prepared(collective, slots, calls), slots.count, seconds)
        calls = self._prepared(collective, slots, iterations)
        payload.fill(slots, collective, iterations, first=1)
        seconds = self._timed(calls)
        wrong += payload.wrong(slots, collective, iterations, first=1)
        return CollectiveTiming(
            collective=collective,
            scope=self._scope.name,
            by=self._backend.by,
            ranks=self._scope.ranks,
            nbytes=size(collective, count, self._scope.ranks),
            count=count,
            type=TYPE,
            redop=COLLECTIVES[collective].redop,
            root=COLLECTIVES[collective].root,
            seconds=seconds / iterations,
            iterations=iterations,
            wrong=self._scope.members.allreduce(wrong),
        )

    def _prepared(self, collective: str, slots: Buffers, calls: int) -> list[Call]:
        prepare = getattr(self._backend, collective)
        pairs = zip(slots.send[:calls].unbind(), slots.receive[:calls].unbind(), strict=True)
        return [prepare(send, receive) for send, receive in pairs]

    def _iterations(self, prepared: Callable[[int], list[Call]], most: int, warm_up: float) -> int:
        """How many calls a row takes: as many as fill its time and have slots; the same on every rank."""
        most, calls, seconds = min(most, MOST_CALLS), 1, warm_up
        if warm_up < SLOW:
            seconds = self._timed(prepared(1))
        while seconds < TRIED and calls < most:
            calls = min(most, 8 * calls)
            seconds = self._timed(prepared(calls))
        return max(LEAST_ITERATIONS, min(most, round(SECONDS * calls / seconds)))

    def _timed(self, calls: list[Call]) -> float:
        """Seconds of the slowest rank for these calls, one after the other; all communicators of the scope at once."""
        device, members = self._backend.device, self._scope.members
        clock.synchronise(device)
        members.Barrier()
        begin = clock.now()
        for call in calls:
            call()
        clock.synchronise(device)
        return float(members.allreduce(clock.now() - begin, MPI.MAX))
