"""Timing of collectives, one size after the other; every number that they deliver is checked."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from mpi4py import MPI

from hpcai import clock
from hpcai.comm.buffers import UNWRITTEN, Buffers, CollectivePatterns, divide, pool_elements
from hpcai.comm.collectives import Backend, Call
from hpcai.comm.scopes import Scope
from hpcai.comm.world import broadcast
from hpcai.formulas.collectives import LEAST_ITERATIONS, CollectiveName
from hpcai.second_clock import CallInterval

SECONDS = 0.04  # of the timed calls of a row, if there are buffers for so many
TRIED = 0.004  # seconds of the trial calls that determine the number of timed calls
SLOW = 0.1  # seconds: for a slower call the warm-up is trial enough
MOST_CALLS = 8192


class TimedCollective(NamedTuple):
    """Seconds of one call of the slowest rank, how many calls were timed, and wrong elements of all ranks.

    second_clock: the seconds by the second clock; None where a GPU works after the calls.
    """

    seconds: float
    second_clock: float | None
    iterations: int
    wrong: int


class CollectiveMemory:
    """Memory on one device for all collectives of a scope, allocated once: buffers and expected results."""

    def __init__(self, scope: Scope, largest: int, device: torch.device) -> None:
        """`largest`: bytes of the largest collective."""
        self.pool = torch.full((pool_elements(largest),), UNWRITTEN, device=device)
        self.patterns = CollectivePatterns(scope.own.size, scope.own.rank, device)


class CollectiveTimer:
    """Measures the collectives of one backend over one scope. Collective over the scope's members."""

    def __init__(self, backend: Backend, scope: Scope, memory: CollectiveMemory) -> None:
        self._backend = backend
        self._scope = scope
        self._memory = memory

    def lacks(self, collective: CollectiveName) -> str:
        """The backend's own reason why it lacks a collective; empty if it has it. The same on every rank."""
        buffers = divide(self._memory.pool, collective, 1, self._scope.ranks)
        reason = ""
        try:
            self._timed(self._prepared(collective, buffers, 1))
        except RuntimeError as error:
            if "support" not in str(error) and not isinstance(error, NotImplementedError):
                raise
            reason = str(error).strip().split("\n")[0] or type(error).__name__
        return str(broadcast(self._scope.members, reason))

    def row(self, collective: CollectiveName, count: int) -> TimedCollective:
        """Check one call, time several, and check these. `count` as nccl-tests define it. The same on every rank."""
        buffers, patterns = divide(self._memory.pool, collective, count, self._scope.ranks), self._memory.patterns
        patterns.fill(buffers, collective, 1)
        seconds = self._timed(self._prepared(collective, buffers, 1))
        wrong = patterns.wrong(buffers, collective, 1)
        iterations = self._iterations(lambda calls: self._prepared(collective, buffers, calls), buffers.count, seconds)
        calls = self._prepared(collective, buffers, iterations)
        patterns.fill(buffers, collective, iterations, first=1)
        interval = CallInterval()
        seconds = self._timed(interval.around(calls))
        second = None if self._backend.device.type == "cuda" else self._slowest(interval.seconds) / iterations
        wrong += patterns.wrong(buffers, collective, iterations, first=1)
        return TimedCollective(seconds / iterations, second, iterations, self._scope.members.allreduce(wrong))

    def _prepared(self, collective: CollectiveName, buffers: Buffers, calls: int) -> list[Call]:
        prepare = getattr(self._backend, collective)
        pairs = zip(buffers.send[:calls].unbind(), buffers.receive[:calls].unbind(), strict=True)
        return [prepare(send, receive) for send, receive in pairs]

    def _iterations(self, prepared: Callable[[int], list[Call]], most: int, warm_up: float) -> int:
        """Number of timed calls: as many as fill SECONDS and have buffers; the same on every rank."""
        most, calls, seconds = min(most, MOST_CALLS), 1, warm_up
        if warm_up < SLOW:
            seconds = self._timed(prepared(1))
        while seconds < TRIED and calls < most:
            calls = min(most, 8 * calls)
            seconds = self._timed(prepared(calls))
        return max(LEAST_ITERATIONS, min(most, round(SECONDS * calls / seconds)))

    def _timed(self, calls: list[Call]) -> float:
        """Seconds of the slowest rank for these calls in sequence; all communicators of the scope work at once."""
        device, members = self._backend.device, self._scope.members
        clock.synchronise(device)
        members.Barrier()
        begin = clock.now()
        for call in calls:
            call()
        clock.synchronise(device)
        return self._slowest(clock.now() - begin)

    def _slowest(self, seconds: float) -> float:
        """Of all ranks. Collective."""
        return float(self._scope.members.allreduce(seconds, MPI.MAX))
