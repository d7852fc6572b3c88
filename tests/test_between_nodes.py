"""Where the ranks of a model lie decides whether its gradients travel within or between nodes."""

from typing import Any

import pytest
from mpi4py import MPI
from small_run import cases_of, golden

from hpcai.comm.grid import split
from hpcai.report import consistency
from hpcai.training.totals import between_nodes

Json = dict[str, Any]


def counted(groups: int, degree: int, mapping: str, node: int) -> Json | None:
    group = split(MPI.COMM_WORLD, groups, degree, mapping)
    if group is None:
        return None
    found = between_nodes(group, node)
    group.free()
    return found


@pytest.mark.parallel(4)
def test_models_with_ranks_on_several_nodes_are_counted() -> None:
    """Nodes of two ranks, made up: by row a model of two has a node of its own, by column each has both."""
    rank, size = MPI.COMM_WORLD.rank, MPI.COMM_WORLD.size
    node, pairs = rank // 2, size // 2
    idle = rank >= 2 * pairs
    assert counted(pairs, 2, "row", node) == (None if idle else {})
    apart = {"models_between_nodes": pairs} if pairs > 1 else {}
    assert counted(pairs, 2, "column", node) == (None if idle else apart)
    assert counted(size, 1, "row", node) == {}
    assert counted(1, size, "row", 7) == {}
    assert counted(1, size, "row", node) == ({"models_between_nodes": 1} if size > 2 else {})


@pytest.mark.parametrize(("index", "models"), [(0, 1), (1, 0), (1, 2), (1, -1)])
def test_a_number_that_cannot_be(index: int, models: int) -> None:
    result = golden()
    raw = {**result["tests"][index]["raw"], "models_between_nodes": models}
    found = list(consistency.contradictions(cases_of(result)[index], raw))
    assert "models_between_nodes: some, with several ranks" in found


def test_one_node_has_nothing_between() -> None:
    result = golden()
    result["tests"][1]["raw"]["models_between_nodes"] = 1
    assert not list(consistency.contradictions(cases_of(result)[1], result["tests"][1]["raw"]))
    found = list(consistency.machine(result, cases_of(result)))
    assert found == ["tests[1].raw: models_between_nodes: with several nodes only"]
    result["environment"]["nodes"] = 2
    for test in result["tests"]:
        test["raw"]["telemetry"]["nodes"] = 2
    assert not list(consistency.machine(result, cases_of(result)))
