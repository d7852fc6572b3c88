"""Scopes of collectives: the communicators on real ranks, on simulated nodes, and skipped scopes."""

from collections.abc import Callable
from itertools import product

import pytest

from hpcai.comm.grid_coordinates import coordinates
from hpcai.formulas.collectives import ONE_RANK, SCOPES

# The node of each rank: all on one, blocks of two, alternating, and one rank separate from all others.
NODES: dict[str, Callable[[int], int]] = {
    "one node": lambda rank: 0,
    "pairs": lambda rank: rank // 2,
    "alternating": lambda rank: rank % 2,
    "one apart": lambda rank: min(rank, 1),
}
Partition = set[frozenset[int]]


def expected(groups: int, degree: int, mapping: str, node_of: Callable[[int], int]) -> dict[str, Partition]:
    """The ranks of each communicator of each scope, derived from lists of all ranks."""
    active = range(groups * degree)
    places = {rank: coordinates(rank, groups, degree, mapping) for rank in active}
    nodes = [[rank for rank in active if node_of(rank) == node] for node in dict.fromkeys(map(node_of, active))]
    fewest = min(map(len, nodes))
    cut = [ranks[:fewest] for ranks in nodes]
    sets = {
        "world": [active],
        "group": [[r for r in active if places[r] and places[r].group == g] for g in range(groups)],
        "across": [[r for r in active if places[r] and places[r].member == m] for m in range(degree)],
        "node": cut,
        "between": list(zip(*cut, strict=True)),
    }
    return {name: {frozenset(ranks) for ranks in each} for name, each in sets.items()}


def left_out(partitions: dict[str, Partition]) -> dict[str, str]:
    skipped: dict[str, str] = {}
    for place, name in enumerate(SCOPES):
        same = [other for other in SCOPES[:place] if other not in skipped and partitions[other] == partitions[name]]
        if all(len(ranks) == 1 for ranks in partitions[name]):
            skipped[name] = ONE_RANK
        elif same:
            skipped[name] = f"the same ranks as {same[0]}"
    return skipped


@pytest.mark.parallel(5)
def test_every_rank_is_in_the_right_communicators_and_equal_scopes_occur_once() -> None:
    from mpi4py import MPI

    from hpcai.comm.grid import split
    from hpcai.comm.scopes import scopes

    world = MPI.COMM_WORLD
    shapes = [(1, 1, "row"), (2, 1, "row"), (1, 2, "row"), (2, 2, "row"), (2, 2, "column"), (1, world.size, "row")]
    grids = [shape for shape in shapes if shape[0] * shape[1] <= world.size]
    for (groups, degree, mapping), node_of in product(grids, NODES.values()):
        group = split(world, groups, degree, mapping)
        if group is None:
            continue
        partitions = expected(groups, degree, mapping, node_of)
        with scopes(group, node_of(world.rank)) as (found, skipped):
            assert skipped == left_out(partitions)
            assert [scope.name for scope in found] == [name for name in SCOPES if name not in skipped]
            for scope in found:
                meets = {frozenset(scope.own.allgather(world.rank))} if scope.joined else set()
                assert {frozenset(ranks) for each in group.active.allgather(meets) for ranks in each} == (
                    partitions[scope.name]
                )
                assert scope.joined == any(world.rank in ranks for ranks in partitions[scope.name])
                assert not scope.joined or scope.own.size == scope.ranks
                together = set().union(*partitions[scope.name])
                assert not scope.joined or set(scope.members.allgather(world.rank)) == together
        assert all(scope.members == MPI.COMM_NULL for scope in found)
        assert group.model != MPI.COMM_NULL
        group.free()
    world.Barrier()


def test_the_expected_scopes_of_uneven_nodes() -> None:
    """Three ranks on the first node and two on the other: two pairs between nodes, and one rank without a partner."""
    partitions = expected(1, 5, "row", lambda rank: rank // 3)
    assert partitions["node"] == {frozenset({0, 1}), frozenset({3, 4})}
    assert partitions["between"] == {frozenset({0, 3}), frozenset({1, 4})}
    assert left_out(partitions) == {"group": "the same ranks as world", "across": ONE_RANK}
