"""The nodes of a model's ranks decide whether its gradients are sent within or between nodes."""

import pytest
from examples.training import stored, violated_claims
from mpi4py import MPI
from msgspec.structs import replace

from hpcai.claims.training_claims import RANKS
from hpcai.comm.grid import split
from hpcai.results.alterations import changed
from hpcai.results.claim import Subject
from hpcai.training.totals import between_nodes

ONE_NODE = "models.between_nodes: with several nodes only"


def counted(groups: int, degree: int, mapping: str, node: int) -> int | None:
    group = split(MPI.COMM_WORLD, groups, degree, mapping)
    if group is None:
        return None
    found = between_nodes(group, node)
    group.free()
    return found


@pytest.mark.parallel(4)
def test_models_with_ranks_on_several_nodes_are_counted() -> None:
    """Simulated nodes of two ranks: by row a model of two has a node of its own, by column each model has both."""
    rank, size = MPI.COMM_WORLD.rank, MPI.COMM_WORLD.size
    node, pairs = rank // 2, size // 2
    idle = rank >= 2 * pairs
    assert counted(pairs, 2, "row", node) == (None if idle else 0)
    apart = pairs if pairs > 1 else 0
    assert counted(pairs, 2, "column", node) == (None if idle else apart)
    assert counted(size, 1, "row", node) == 0
    assert counted(1, size, "row", 7) == 0
    assert counted(1, size, "row", node) == (1 if size > 2 else 0)


@pytest.mark.parametrize(("index", "models"), [(0, 1), (1, 2)])
def test_an_impossible_number_of_models_is_refused(index: int, models: int) -> None:
    found = violated_claims(stored("ensemble")[index], changed("raw.models.between_nodes", models))
    assert "models.between_nodes: models of several ranks, at most all" in found


def test_one_node_has_no_models_between_nodes() -> None:
    apart = changed("raw.models.between_nodes", 1)
    test = stored("ensemble")[1]
    assert violated_claims(test, apart) == [ONE_NODE]
    wide = Subject(test.case, test.entry, replace(test.environment, nodes=2))
    assert violated_claims(wide, apart, changed("telemetry.nodes", 2)) == []
    assert ONE_NODE in {claim.text for claim in RANKS}
