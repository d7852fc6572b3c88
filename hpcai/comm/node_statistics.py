"""Statistics of one value of each node, in memory that does not grow with the nodes."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from mpi4py import MPI

from hpcai.comm import communicators
from hpcai.comm.world import World
from hpcai.formulas.node_health import LISTED, middle, quartiles


class NodeValue(NamedTuple):
    """The value of a node: the smallest of its ranks; the rank that has it, and the host. Ordered by the value."""

    value: float
    rank: int
    host: str


class Statistics(NamedTuple):
    """Order statistics of the values of all nodes; deviation: median of |value - median|. lowest: LISTED at most."""

    nodes: int
    minimum: float
    lower_quartile: float
    median: float
    upper_quartile: float
    maximum: float
    deviation: float
    lowest: list[NodeValue]


class Nodes:
    """All nodes, each by its first rank."""

    def __init__(self, world: World) -> None:
        """Collective over the world."""
        self._world = world
        first = world.node.rank == 0
        self._firsts = communicators.split(world.comm, 0 if first else MPI.UNDEFINED, world.rank)
        self.count: int = world.comm.allreduce(int(first))
        self.fewest: int = world.comm.allreduce(world.node.size, MPI.MIN)

    def free(self) -> None:
        """Collective over the first ranks."""
        if self._firsts != MPI.COMM_NULL:
            self._firsts.Free()

    def statistics(self, value: float) -> Statistics:
        """Of the smallest value of each node's ranks, not negative. Collective, the same on every rank."""
        world = self._world
        own = NodeValue(*world.node.allreduce((value, world.rank, world.host), MPI.MIN))
        found = self._of_nodes(own) if world.node.rank == 0 else None
        return Statistics(*world.node.bcast(found))

    def below(self, value: float, limit: float) -> int:
        """Nodes with a rank whose value is below the limit. Collective, the same on every rank."""
        world = self._world
        own = world.node.allreduce(value, MPI.MIN) < limit and world.node.rank == 0
        return int(world.comm.allreduce(int(own)))

    def _of_nodes(self, own: NodeValue) -> Statistics:
        """Collective over the first ranks."""
        nodes = self._firsts.size
        places = 0, quartiles(nodes)[0], *middle(nodes), quartiles(nodes)[1], nodes - 1
        minimum, lower, one, other, upper, maximum = order_statistics(self._firsts, own.value, places)
        median = (one + other) / 2
        deviation = sum(order_statistics(self._firsts, abs(own.value - median), middle(nodes))) / 2
        return Statistics(nodes, minimum, lower, median, upper, maximum, deviation, self._lowest(own))

    def _lowest(self, own: NodeValue) -> list[NodeValue]:
        """The nodes with the lowest values, ascending. Collective over the first ranks."""
        found: list[NodeValue] = []
        left = own
        for _ in range(min(LISTED, self._firsts.size)):
            found.append(NodeValue(*self._firsts.allreduce(left, MPI.MIN)))
            left = NodeValue(np.inf, own.rank, "") if found[-1] == own else left
        return found


def order_statistics(comm: MPI.Comm, value: float, places: Sequence[int]) -> list[float]:
    """The values at these places, from 0 on, of the values of all ranks in ascending order; none is negative.

    Bisection over the bits of a double, whose order is that of the numbers: 63 reductions of one count a place.
    Collective, the same on every rank.
    """
    own, wanted = np.float64(value).view(np.int64), np.asarray(places, np.int64)
    low, high = np.zeros_like(wanted), np.full_like(wanted, np.float64(np.inf).view(np.int64))
    while (low < high).any():
        between = low + (high - low) // 2
        counts = np.empty_like(wanted)
        comm.Allreduce((own <= between).astype(np.int64), counts)
        low, high = np.where(counts > wanted, low, between + 1), np.where(counts > wanted, between, high)
    return [float(found) for found in low.view(np.float64)]
