"""Ranks in one process, as many as 100,000, on communicators that count the messages and bytes of each rank.

Each rank runs the program's own code in a greenlet, up to its next collective call, which returns when all ranks of the
communicator have called it. A message counts on the rank that sends it and on the one that receives it;
simulated_comm.py says how many a call takes.
"""

from collections.abc import Callable
from typing import Any

from greenlet import getcurrent, greenlet
from simulated_calls import Differs, Members, Turns
from simulated_comm import SimulatedComm

from hpcai.comm.world import World

__all__ = ["Differs", "SimulatedComm", "Simulation"]


class Simulation(Turns):
    """So many ranks, `per_node` of them on each node."""

    def run(self, work: Callable[[World], Any]) -> list[Any]:
        """What `work` returns on each rank. Differs where ranks wait for each other for ever."""
        found: list[Any] = [None] * self.ranks
        hub = getcurrent()

        def rank(number: int, world: World) -> None:
            found[number] = work(world)

        whole = Members(self, range(self.ranks))
        nodes = [Members(self, range(first, first + self.per_node)) for first in range(0, self.ranks, self.per_node)]
        begun = []
        for number in range(self.ranks):
            node, place = divmod(number, self.per_node)
            world = World(SimulatedComm(whole, number), SimulatedComm(nodes[node], place), f"node{node}")
            begun.append(greenlet(lambda own=number, of=world: rank(own, of), hub))
        self.ready.extend(begun)
        while self.ready:
            self.ready.popleft().switch()
        if waiting := sum(not each.dead for each in begun):
            raise Differs(f"{waiting} ranks wait for ever")
        return found
