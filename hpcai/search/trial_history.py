"""What a search knows of networks: those that were tried, how far they are from one another, those that did not fit."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from random import Random

import numpy as np
from numpy.typing import NDArray

from hpcai.networks.digest import digest
from hpcai.networks.graph import Graph
from hpcai.networks.morphism import Morphism
from hpcai.search.edit_distance import Features, distances, features, packed

BEST, NEWEST, DRAWN = 100, 200, 200  # of more than so many trials together, those that a choice depends on
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Known:
    """A trial that did not fail: its network, the value a search ranks by, what leads to it from the initial one."""

    id: int
    graph: Graph
    features: Features
    value: float
    chain: tuple[Morphism, ...]
    lot: float  # from 0 to 1


class Book:
    """Trials in the order in which they were added, and all networks that are not to be proposed any more, by digest.

    Books of the same trials in the same order, with the same seed, are the same on every rank.
    """

    def __init__(self, initial: Graph, seed: int) -> None:
        self.initial = initial
        self.known: dict[int, Known] = {}
        self.tried: set[str] = set()
        self.refused: set[str] = set()
        self._seed = seed
        self._graphs: dict[tuple[Morphism, ...], Graph] = {(): initial}
        self._near: tuple[tuple[int, ...], Floats] = ((), np.zeros((0, 0)))

    def add(self, id: int, chain: Sequence[Morphism], value: float | None) -> None:
        """A trial that ended, what leads to its network from the initial one, and its value, None if it failed.

        InputError for a morphism that is not legal.
        """
        graph = self._grown(tuple(chain))
        self.tried.add(digest(graph))
        if value is not None:
            lot = Random(f"{self._seed}/{id}").random()
            self.known[id] = Known(id, graph, features(graph), value, tuple(chain), lot)
            self._graphs[tuple(chain)] = graph

    def _grown(self, chain: tuple[Morphism, ...]) -> Graph:
        """The network at the end of a chain, from the last one on the way that is known."""
        begin = next(length for length in range(len(chain), -1, -1) if chain[:length] in self._graphs)
        return reduce(lambda graph, morphism: morphism.apply(graph), chain[begin:], self._graphs[chain[:begin]])

    def conditioned(self) -> list[Known]:
        """All that did not fail; of more than 500, the 100 best, of the rest the 200 newest, and 200 drawn by the seed.

        In the order in which they were added.
        """
        known = [*self.known.values()]
        if len(known) <= BEST + NEWEST + DRAWN:
            return known
        places = sorted(range(len(known)), key=lambda place: -known[place].value)
        rest = sorted(places[BEST:])
        drawn = sorted(rest[:-NEWEST], key=lambda place: known[place].lot)[:DRAWN]
        return [known[place] for place in sorted([*places[:BEST], *rest[-NEWEST:], *drawn])]

    def forget(self) -> None:
        """Keep of very many trials those that a choice depends on; that the others were tried stays known."""
        chosen = self.conditioned()
        self.known = {known.id: known for known in chosen}
        self._graphs = {(): self.initial, **{known.chain: known.graph for known in chosen}}

    def distances(self, chosen: Sequence[Known]) -> Floats:
        """Between all of these, float64[n, n]; what they share with those asked for before is not computed again."""
        before, near = self._near
        place = {id: place for place, id in enumerate(before)}
        old = np.array([place.get(known.id, -1) for known in chosen], np.int64)
        found = np.zeros((len(chosen), len(chosen)))
        found[np.ix_(old >= 0, old >= 0)] = near[np.ix_(old[old >= 0], old[old >= 0])]
        library = packed([known.features for known in chosen])
        for new in np.flatnonzero(old < 0).tolist():
            found[new] = found[:, new] = distances(chosen[new].features, library)
        self._near = tuple(known.id for known in chosen), found
        return found
