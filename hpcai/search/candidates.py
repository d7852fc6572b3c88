"""Candidate networks for the next trial: best-first search with simulated annealing among neighbours of known networks.

Source: Jin et al., "Auto-Keras", 2019 (arXiv:1806.10282), section 3.2, algorithm 1, with the cooling and the number of
neighbours of AIPerf (Ren et al., 2020, arXiv:2008.07141). Unlike there, the search ends a few morphisms away from the
parent: farther away the Gaussian process is uncertain, so that its upper bound is highest where nothing is known.
"""

from collections.abc import Callable, Collection, Sequence
from heapq import heapify, heappop, heappush
from itertools import count
from math import exp, inf
from random import Random
from typing import NamedTuple

import numpy as np

from hpcai.networks.digest import digest
from hpcai.networks.graph import Graph
from hpcai.networks.layers import Conv
from hpcai.networks.morphism import Morphism
from hpcai.search.edit_distance import Features, distances, features, packed
from hpcai.search.gaussian_process import Floats, fit, upper_confidence_bound
from hpcai.search.neighbours import FARTHEST, Neighbourhood
from hpcai.search.trial_history import EvaluatedNetwork, TrialHistory

BAYES = "bayes"  # the strategy that ranks by a Gaussian process
HOTTEST, COLDEST, COOLING = 1.0, 1e-4, 0.5
NEIGHBOURS = 8  # of an expansion
MOST = 8  # candidates of a selection
ATTEMPTS = 64  # at drawing candidates at random


class Limits(NamedTuple):
    """Limits of a network: its convolutions and trained parameters, 0 for any number, and whether its memory fits."""

    depth: int = 0
    parameters: int = 0
    fits: Callable[[Graph], bool] = lambda graph: True

    def allow(self, graph: Graph) -> bool:
        """Whether a network keeps to all limits."""
        depth = sum(isinstance(layer.op, Conv) for layer in graph.layers)
        parameters = sum(graph.parameters.values()) if self.parameters else 0
        return depth <= (self.depth or depth) and parameters <= self.parameters and self.fits(graph)


class Candidate(NamedTuple):
    """A network to try: the morphisms lead to it from that of its parent, or from the initial one if that is None.

    `ancestry` leads from the initial network to the parent's.
    """

    parent: int | None
    ancestry: tuple[Morphism, ...]
    morphisms: tuple[Morphism, ...]
    graph: Graph
    digest: str = ""
    bound: float = 0.0  # upper confidence bound of its value, of strategy `bayes`

    @property
    def chain(self) -> tuple[Morphism, ...]:
        """All morphisms from the initial network."""
        return self.ancestry + self.morphisms


class Selection(NamedTuple):
    """Candidates, the best first, all different; how many others were tried before, and how many broke the limits."""

    candidates: tuple[Candidate, ...]
    duplicates: int
    rejected: int


def propose(
    strategy: str, history: TrialHistory, stored: Collection[int], limits: Limits, seed: int, first: bool = False
) -> Selection:
    """At most 8 networks that were not tried before and keep to the limits.

    Parents are trials whose ids are in `stored`. If they have no such neighbours, as where they fill the limits,
    candidates descend from the initial network by one morphism, then by several. It is a candidate itself, before the
    others if the worker is the `first`. Strategy `bayes` ranks by an
    upper confidence bound of a Gaussian process, `random` draws a parent and a morphism. Networks that break the limits
    are noted in the history. A function of its arguments alone: the same on every rank that passes the same.
    """
    search = _CandidateSearch(history, limits, Random(seed))
    parents = [network for id, network in history.evaluated.items() if id in stored]
    found = search.annealed(parents) if parents and strategy == BAYES else []
    found = found or search.drawn([*map(_unchanged, parents)]) or search.initial(first) or search.walked()
    return Selection(tuple(found[:MOST]), search.duplicates, search.rejected)


def _unchanged(network: EvaluatedNetwork) -> Candidate:
    """An evaluated network as the origin of its neighbours."""
    return Candidate(network.id, network.chain, (), network.graph)


class _CandidateSearch:
    """One search for candidates."""

    def __init__(self, history: TrialHistory, limits: Limits, random: Random) -> None:
        self.history, self.limits, self.random = history, limits, random
        self.seen: set[str] = set()
        self.duplicates = self.rejected = 0

    def initial(self, first: bool) -> list[Candidate]:
        """The initial network, if it was not tried, and single morphisms of it."""
        initial = self._root()
        itself = [initial] if initial.digest not in self.history.tried else []
        drawn = self.drawn([initial])
        return [*itself, *drawn] if first else [*drawn, *itself]

    def walked(self) -> list[Candidate]:
        """Networks several random morphisms away from the initial one."""
        return self.drawn([self._walk(self.random.randrange(1, FARTHEST)) for _ in range(ATTEMPTS)])

    def _root(self) -> Candidate:
        return Candidate(None, (), (), self.history.initial, digest(self.history.initial))

    def _walk(self, steps: int) -> Candidate:
        """The end of a random walk from the initial network; it may break limits, or have been tried."""
        end = self._root()
        for _ in range(steps):
            if morphism := Neighbourhood(end.graph).draw(self.random):
                end = end._replace(morphisms=(*end.morphisms, morphism), graph=morphism.apply(end.graph))
        return end

    def drawn(self, origins: list[Candidate]) -> list[Candidate]:
        """Random neighbours of random origins."""
        found: list[Candidate] = []
        for _ in range(ATTEMPTS if origins else 0):
            origin = self.random.choice(origins)
            found += self.neighbour(origin, Neighbourhood(origin.graph))
            if len(found) == MOST:
                break
        return found

    def annealed(self, parents: list[EvaluatedNetwork]) -> list[Candidate]:
        """All candidates that the annealed best-first search visits, the best first."""
        acquisition, number = _AcquisitionFunction(self.history), count()
        heap = [(-acquisition.of_evaluated(network), next(number), _unchanged(network)) for network in parents]
        heapify(heap)
        found: list[Candidate] = []
        best, temperature = -inf, HOTTEST
        while heap and temperature > COLDEST:
            bound, _, origin = heappop(heap)
            if self.random.random() <= exp(min(0.0, (-bound - best) / temperature)):
                found += (expansion := self.expanded(origin, acquisition))
                best = max([best, *(candidate.bound for candidate in expansion)])
                for candidate in expansion:
                    if len(candidate.morphisms) < FARTHEST:
                        heappush(heap, (-candidate.bound, next(number), candidate))
            temperature *= COOLING
        return sorted(found, key=lambda candidate: -candidate.bound)

    def expanded(self, origin: Candidate, acquisition: "_AcquisitionFunction") -> list[Candidate]:
        """Random neighbours of one origin, with their upper confidence bounds."""
        neighbourhood = Neighbourhood(origin.graph)
        found = [candidate for _ in range(NEIGHBOURS) for candidate in self.neighbour(origin, neighbourhood)]
        bounds = acquisition.of([features(candidate.graph) for candidate in found])
        return [candidate._replace(bound=float(bound)) for candidate, bound in zip(found, bounds, strict=True)]

    def neighbour(self, origin: Candidate, neighbourhood: Neighbourhood) -> list[Candidate]:
        """One random neighbour; none if it was tried or seen before, or breaks the limits."""
        morphism = neighbourhood.draw(self.random)
        if morphism is None:
            return []
        graph = morphism.apply(origin.graph)
        key, history = digest(graph), self.history
        self.duplicates += key in history.tried
        if any(key in networks for networks in (self.seen, history.tried, history.refused)):
            return []
        self.seen.add(key)
        if not self.limits.allow(graph):
            history.refused.add(key)
            self.rejected += 1
            return []
        return [Candidate(origin.parent, origin.ancestry, (*origin.morphisms, morphism), graph, key)]


class _AcquisitionFunction:
    """Upper confidence bound of a network's value, by a Gaussian process fitted to the history."""

    def __init__(self, history: TrialHistory) -> None:
        networks = history.conditioned()
        pairwise = history.distances(networks)
        self.rows = {network.id: row for network, row in zip(networks, pairwise, strict=True)}
        self.library = packed([network.features for network in networks])
        self.process = fit(pairwise, np.array([network.value for network in networks]))

    def of(self, networks: Sequence[Features]) -> Floats:
        """Upper confidence bounds of networks, float64[n]."""
        rows = [distances(network, self.library) for network in networks]
        return upper_confidence_bound(self.process, np.array(rows).reshape(-1, len(self.rows)))

    def of_evaluated(self, network: EvaluatedNetwork) -> float:
        """Upper confidence bound of an evaluated network."""
        row = self.rows.get(network.id)
        row = distances(network.features, self.library) if row is None else row
        return float(upper_confidence_bound(self.process, row[None])[0])
