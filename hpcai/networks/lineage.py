"""The networks of a search: each is its parent's network, changed by morphisms; without a parent, the initial one."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from hpcai.errors import InputError
from hpcai.networks.graph import Graph
from hpcai.networks.morphism import Morphism


class Descendant(Protocol):
    """What determines the network of a trial: `morphisms` lead from the network of trial `parent` to its own."""

    @property
    def id(self) -> int: ...

    @property
    def parent(self) -> int | None: ...

    @property
    def morphisms(self) -> Sequence[Morphism]: ...


def morphed(graph: Graph, morphisms: Sequence[Morphism]) -> Graph:
    """The graph after these morphisms, one after the other. InputError for a morphism that is not legal."""
    for morphism in morphisms:
        graph = morphism.apply(graph)
    return graph


def lineage(initial: Graph, trials: Sequence[Descendant]) -> dict[int, Graph]:
    """The network of each trial by its id; trials may come in any order.

    InputError where a parent does not exist, a trial descends from itself, or a morphism is not legal.
    """
    by_id = {trial.id: trial for trial in trials}
    graphs: dict[int, Graph] = {}
    for trial in trials:
        for descendant in reversed(_ancestors_without_graph(trial, by_id, graphs)):
            parent = initial if descendant.parent is None else graphs[descendant.parent]
            graphs[descendant.id] = morphed(parent, descendant.morphisms)
    return graphs


def _ancestors_without_graph(
    trial: Descendant, by_id: Mapping[int, Descendant], graphs: Mapping[int, Graph]
) -> list[Descendant]:
    """The trial, its parent, and so on, up to the first trial whose network is known."""
    line: dict[int, Descendant] = {}
    number: int | None = trial.id
    while number is not None and number not in graphs:
        if number in line:
            raise InputError(f"trial {trial.id} descends from trial {number}, which descends from itself")
        if number not in by_id:
            raise InputError(f"trial {trial.id} descends from trial {number}, which does not exist")
        line[number] = by_id[number]
        number = by_id[number].parent
    return list(line.values())
