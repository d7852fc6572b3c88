"""History of a search on one leader: networks that were tried, their edit distances, and networks that were refused."""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

import numpy as np
from numpy.typing import NDArray

from hpcai.networks.digest import digest
from hpcai.networks.graph import Graph
from hpcai.networks.lineage import morphed
from hpcai.networks.morphism import Morphism
from hpcai.search.edit_distance import Features, distances, features, packed

BEST, NEWEST, DRAWN = 100, 200, 200  # trials that the Gaussian process is fitted to, where there are more in all
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class EvaluatedNetwork:
    """The network of a trial that did not fail, the value that a search ranks by, and the morphisms that lead to it."""

    id: int
    graph: Graph
    features: Features
    value: float
    chain: tuple[Morphism, ...]  # from the initial network
    draw: float  # random number in [0, 1) of this trial


class TrialHistory:
    """Evaluated networks in the order of `add`, and the digests of all networks that must not be proposed again.

    Histories of the same trials in the same order, with the same seed, are the same on every rank.
    """

    def __init__(self, initial: Graph, seed: int) -> None:
        self.initial = initial
        self.evaluated: dict[int, EvaluatedNetwork] = {}
        self.tried: set[str] = set()
        self.refused: set[str] = set()
        self._seed = seed
        self._graphs: dict[tuple[Morphism, ...], Graph] = {(): initial}
        self._distances: tuple[tuple[int, ...], Floats] = ((), np.zeros((0, 0)))

    def add(self, id: int, chain: Sequence[Morphism], value: float | None) -> None:
        """Add a trial: the morphisms from the initial network to its own, and its value, None if it failed.

        InputError for a morphism that is not legal.
        """
        graph = self._graph(tuple(chain))
        self.tried.add(digest(graph))
        if value is not None:
            draw = Random(f"{self._seed}/{id}").random()
            self.evaluated[id] = EvaluatedNetwork(id, graph, features(graph), value, tuple(chain), draw)
            self._graphs[tuple(chain)] = graph

    def _graph(self, chain: tuple[Morphism, ...]) -> Graph:
        """The network at the end of a chain, from the longest part of the chain whose network is known."""
        begin = next(length for length in range(len(chain), -1, -1) if chain[:length] in self._graphs)
        return morphed(self._graphs[chain[:begin]], chain[begin:])

    def conditioned(self) -> list[EvaluatedNetwork]:
        """The networks that the Gaussian process is fitted to, in the order in which they were added.

        All; of more than 500, the 100 best, of the rest the 200 newest, and 200 drawn by the seed.
        """
        networks = [*self.evaluated.values()]
        if len(networks) <= BEST + NEWEST + DRAWN:
            return networks
        places = sorted(range(len(networks)), key=lambda place: -networks[place].value)
        rest = sorted(places[BEST:])
        drawn = sorted(rest[:-NEWEST], key=lambda place: networks[place].draw)[:DRAWN]
        return [networks[place] for place in sorted([*places[:BEST], *rest[-NEWEST:], *drawn])]

    def forget(self) -> None:
        """Keep only the networks of `conditioned`; the digests of the others stay known."""
        kept = self.conditioned()
        self.evaluated = {network.id: network for network in kept}
        self._graphs = {(): self.initial, **{network.chain: network.graph for network in kept}}

    def distances(self, networks: Sequence[EvaluatedNetwork]) -> Floats:
        """Edit distances between all pairs, float64[n, n]; those of the call before are not computed again."""
        before, known = self._distances
        place = {id: place for place, id in enumerate(before)}
        old = np.array([place.get(network.id, -1) for network in networks], np.int64)
        result = np.zeros((len(networks), len(networks)))
        result[np.ix_(old >= 0, old >= 0)] = known[np.ix_(old[old >= 0], old[old >= 0])]
        library = packed([network.features for network in networks])
        for new in np.flatnonzero(old < 0).tolist():
            result[new] = result[:, new] = distances(networks[new].features, library)
        self._distances = tuple(network.id for network in networks), result
        return result
