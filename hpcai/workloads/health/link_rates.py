"""Rates of a node's links: an all-reduce within each node, and pairs of nodes that exchange data."""

from dataclasses import dataclass

import numpy as np
import torch
from mpi4py import MPI

from hpcai import clock
from hpcai.comm import communicators
from hpcai.comm.collective_timing import CollectiveMemory, CollectiveTimer
from hpcai.comm.collectives import Torch
from hpcai.comm.node_statistics import Nodes
from hpcai.comm.rendezvous import backend, torch_world
from hpcai.comm.scopes import Scope
from hpcai.comm.world import World, sleeping_barrier
from hpcai.formulas.collectives import COLLECTIVES, ELEMENT, ONE_RANK
from hpcai.formulas.node_health import partner, rounds
from hpcai.kernels.spec import Float32
from hpcai.workloads.health import checks, plan
from hpcai.workloads.health.record import Unit

ONE_NODE = "one node"
MOST_CALLS = 1000
UNWRITTEN = -1.0


@dataclass(frozen=True)
class WithinNode:
    """Bus bandwidth of an all-reduce over the ranks of each node, by the backend that trains, all nodes at once."""

    world: World
    device: torch.device
    nodes: Nodes
    name: str = checks.ALL_REDUCE
    unit: Unit = "B/s"

    def unavailable(self) -> str:
        """Why it is not measured; the same on every rank."""
        return ONE_RANK if self.nodes.fewest == 1 else ""

    def measured(self) -> float:
        """Of this rank's node; 0 if a sum is wrong. Collective."""
        node, by = self.world.node, backend(self.world.comm, self.device)
        with torch_world(node, by, self.world.host, self.device):
            scope, at = Scope("node", node.size, node, node), Torch(by, self.device)
            timer = CollectiveTimer(at, scope, CollectiveMemory(scope, plan.EXCHANGED, at.device))
            rows = [timer.row("all_reduce", plan.EXCHANGED // ELEMENT) for _ in range(plan.BLOCKS)]
        if any(row.wrong for row in rows):
            return 0.0
        return plan.EXCHANGED * COLLECTIVES["all_reduce"].factor(node.size) / min(row.seconds for row in rows)


@dataclass(frozen=True)
class BetweenNodes:
    """Bandwidth each way between a rank and that with the same place on another node, by MPI in host memory.

    All pairs exchange data at once, and each node has several partners one after the other; the best of them counts,
    since a slow partner is not this node's fault.
    """

    world: World
    nodes: Nodes
    name: str = checks.LINKS
    unit: Unit = "B/s"

    def unavailable(self) -> str:
        """Why it is not measured; the same on every rank."""
        return ONE_NODE if self.nodes.count == 1 else ""

    def measured(self) -> float:
        """Of this rank; infinite for ranks that have no counterpart on each node. Collective."""
        world = self.world
        spare = world.node.rank >= self.nodes.fewest
        across = communicators.split(world.comm, MPI.UNDEFINED if spare else world.node.rank, world.rank)
        found = float("inf") if spare else _best(across)
        sleeping_barrier(world.comm)
        if not spare:
            across.Free()
        return found


def _best(across: MPI.Comm) -> float:
    """Bytes a second each way with the fastest partner; 0 if wrong numbers arrived. Collective over `across`."""
    sent = np.full(plan.EXCHANGED // ELEMENT, across.rank, np.float32)
    sent += np.arange(len(sent), dtype=np.float32) % 64 / 64  # exact, and different at each place of a block
    received, best, wrong = np.empty_like(sent), 0.0, False
    for number in range(rounds(across.size)):
        other = partner(across.rank, number, across.size)
        across.Barrier()
        if other is not None:
            received.fill(UNWRITTEN)
            best = max(best, sent.nbytes / _seconds(across, other, sent, received))
            wrong |= bool((received - sent != other - across.rank).any())
    return 0.0 if wrong else best


def _seconds(across: MPI.Comm, other: int, sent: Float32, received: Float32) -> float:
    """Of one exchange, the mean of as many as both partners count."""
    first = _timed(across, other, sent, received, 1)
    second = _timed(across, other, sent, received, 1)
    calls = int(max(1, min(MOST_CALLS, plan.LEAST / min(first, second))))
    calls = max(calls, across.sendrecv(calls, other, source=other))
    received.fill(UNWRITTEN)
    return _timed(across, other, sent, received, calls) / calls


def _timed(across: MPI.Comm, other: int, sent: Float32, received: Float32, calls: int) -> float:
    begin = clock.now()
    for _ in range(calls):
        across.Sendrecv(sent, other, recvbuf=received, source=other)
    return clock.now() - begin
