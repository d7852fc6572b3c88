"""Which networks to try next: best-first search among neighbours of those that are known, with simulated annealing.

Source: Jin et al., "Auto-Keras", 2019 (arXiv:1806.10282), section 3.2, algorithm 1, with the cooling and the number of
neighbours of AIPerf (Ren et al., 2020, arXiv:2008.07141). Ours is that it ends a few morphisms away from the parent:
farther away all is uncertain, so that hopes are highest where nothing is known.
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
from hpcai.search.gaussian_process import Floats, fitted, upper_bound
from hpcai.search.neighbours import FARTHEST, Neighbourhood
from hpcai.search.trial_history import Book, Known

HOTTEST, COLDEST, COOLING = 1.0, 1e-4, 0.5
NEIGHBOURS = 8  # of an expansion
MOST = 8  # candidates of a proposal
TRIES = 64  # of drawing them at random


class Limits(NamedTuple):
    """What a network must keep to: convolutions and trained values, 0 for any number, and whether its memory fits."""

    depth: int = 0
    parameters: int = 0
    fits: Callable[[Graph], bool] = lambda graph: True

    def allow(self, graph: Graph) -> bool:
        """Whether a network keeps to all of them."""
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
    bound: float = 0.0  # of the value that may be hoped for, where that is asked

    @property
    def chain(self) -> tuple[Morphism, ...]:
        """All morphisms from the initial network."""
        return self.ancestry + self.morphisms


class Proposal(NamedTuple):
    """Candidates, the best first, all different; how many others were known, how many did not keep to the limits."""

    candidates: tuple[Candidate, ...]
    duplicates: int
    rejected: int


def proposed(
    strategy: str, book: Book, kept: Collection[int], limits: Limits, seed: int, first: bool = False
) -> Proposal:
    """What to try next: at most 8 networks that are in no trial of the book, and keep to the limits.

    Parents are trials whose ids are in `kept`. Where none of them leads anywhere, candidates descend from the initial
    network, which is one itself, before the others if the worker is the `first`. Strategy `bayes` ranks by what a
    Gaussian process hopes for, `random` draws a parent and a morphism. Networks that do not keep to the limits are
    noted in the book. A function of its arguments alone: the same on every rank that gives the same.
    """
    search = _Search(book, limits, Random(seed))
    parents = [known for id, known in book.known.items() if id in kept]
    found = search.annealed(parents) if parents and strategy == "bayes" else []
    found = found or search.drawn([*map(_origin, parents)]) or search.begun(first)
    return Proposal(tuple(found[:MOST]), search.duplicates, search.rejected)


def _origin(known: Known) -> Candidate:
    """A trial, for its neighbours."""
    return Candidate(known.id, known.chain, (), known.graph)


class _Search:
    """A proposal in the making."""

    def __init__(self, book: Book, limits: Limits, dice: Random) -> None:
        self.book, self.limits, self.dice = book, limits, dice
        self.seen: set[str] = set()
        self.duplicates = self.rejected = 0

    def begun(self, first: bool) -> list[Candidate]:
        """The initial network, and single morphisms of it."""
        initial = Candidate(None, (), (), self.book.initial, digest(self.book.initial))
        itself = [initial] if initial.digest not in self.book.tried else []
        drawn = self.drawn([initial])
        return [*itself, *drawn] if first else [*drawn, *itself]

    def drawn(self, origins: list[Candidate]) -> list[Candidate]:
        """Some of their neighbours, whatever may be hoped for."""
        found: list[Candidate] = []
        for _ in range(TRIES if origins else 0):
            origin = self.dice.choice(origins)
            found += self.neighbour(origin, Neighbourhood(origin.graph))
            if len(found) == MOST:
                break
        return found

    def annealed(self, parents: list[Known]) -> list[Candidate]:
        """All that were looked at, the best first."""
        hopes, number = _Hopes(self.book), count()
        heap = [(-hopes.of_known(known), next(number), _origin(known)) for known in parents]
        heapify(heap)
        found: list[Candidate] = []
        best, temperature = -inf, HOTTEST
        while heap and temperature > COLDEST:
            bound, _, origin = heappop(heap)
            if self.dice.random() <= exp(min(0.0, (-bound - best) / temperature)):
                found += (expansion := self.expanded(origin, hopes))
                best = max([best, *(candidate.bound for candidate in expansion)])
                for candidate in expansion:
                    if len(candidate.morphisms) < FARTHEST:
                        heappush(heap, (-candidate.bound, next(number), candidate))
            temperature *= COOLING
        return sorted(found, key=lambda candidate: -candidate.bound)

    def expanded(self, origin: Candidate, hopes: "_Hopes") -> list[Candidate]:
        """Neighbours, with what may be hoped of them."""
        neighbourhood = Neighbourhood(origin.graph)
        found = [candidate for _ in range(NEIGHBOURS) for candidate in self.neighbour(origin, neighbourhood)]
        bounds = hopes.of([features(candidate.graph) for candidate in found])
        return [candidate._replace(bound=float(bound)) for candidate, bound in zip(found, bounds, strict=True)]

    def neighbour(self, origin: Candidate, neighbourhood: Neighbourhood) -> list[Candidate]:
        """One, or none if it is known or does not keep to the limits."""
        morphism = neighbourhood.drawn(self.dice)
        if morphism is None:
            return []
        graph = morphism.apply(origin.graph)
        mark = digest(graph)
        self.duplicates += mark in self.book.tried
        if any(mark in networks for networks in (self.seen, self.book.tried, self.book.refused)):
            return []
        self.seen.add(mark)
        if not self.limits.allow(graph):
            self.book.refused.add(mark)
            self.rejected += 1
            return []
        return [Candidate(origin.parent, origin.ancestry, (*origin.morphisms, morphism), graph, mark)]


class _Hopes:
    """What may be hoped for of networks, given the trials of a book."""

    def __init__(self, book: Book) -> None:
        known = book.conditioned()
        near = book.distances(known)
        self.near = {trial.id: row for trial, row in zip(known, near, strict=True)}
        self.library = packed([trial.features for trial in known])
        self.process = fitted(near, np.array([trial.value for trial in known]))

    def of(self, networks: Sequence[Features]) -> Floats:
        """Upper bounds of their values."""
        rows = [distances(network, self.library) for network in networks]
        return upper_bound(self.process, np.array(rows).reshape(-1, len(self.near)))

    def of_known(self, known: Known) -> float:
        """The same of a trial of the book."""
        row = self.near.get(known.id)
        row = distances(known.features, self.library) if row is None else row
        return float(upper_bound(self.process, row[None])[0])
