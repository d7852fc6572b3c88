"""The networks of a search: each is its parent's, changed by morphisms; where there is no parent, the initial one."""

from collections.abc import Mapping, Sequence
from typing import Any

from hpcai.errors import InputError
from hpcai.networks.graph import Graph
from hpcai.networks.morphism import from_json

Json = Mapping[str, Any]


def changed(graph: Graph, morphisms: Sequence[Json]) -> Graph:
    """The graph after these morphisms (as their `to_json` writes them); InputError for one that is not legal."""
    for written in morphisms:
        graph = from_json(dict(written)).apply(graph)
    return graph


def lineage(initial: Graph, trials: Sequence[Json]) -> dict[int, Graph]:
    """The network of each trial by its `id`, from `parent` (an id, or None) and `morphisms`; in any order of trials.

    InputError where a parent does not exist, a trial descends from itself, or a morphism is not legal.
    """
    known = {trial["id"]: trial for trial in trials}
    found: dict[int, Graph] = {}
    for trial in trials:
        for heir in reversed(_unknown_ancestors(trial, known, found)):
            parent = initial if heir["parent"] is None else found[heir["parent"]]
            found[heir["id"]] = changed(parent, heir["morphisms"])
    return found


def _unknown_ancestors(trial: Json, known: Mapping[int, Json], found: Mapping[int, Graph]) -> list[Json]:
    """The trial, its parent and so on, as far as their networks are not found yet."""
    line: dict[int, Json] = {}
    number: int | None = trial["id"]
    while number is not None and number not in found:
        if number in line:
            raise InputError(f"trial {trial['id']} descends from trial {number}, which descends from itself")
        if number not in known:
            raise InputError(f"trial {trial['id']} descends from trial {number}, which does not exist")
        line[number] = known[number]
        number = known[number]["parent"]
    return list(line.values())
