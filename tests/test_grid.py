"""The process grid: every rank's coordinates, and the communicators of real ranks."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcai.comm.grid import Coordinates, coordinates, split

SHAPES = [(p, q, mapping) for p in range(1, 9) for q in range(1, 9) for mapping in ("row", "column") if p * q <= 8]


@pytest.mark.parametrize(
    ("mapping", "places"),
    [
        ("row", [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2), None, None]),
        ("column", [(0, 0), (1, 0), (0, 1), (1, 1), (0, 2), (1, 2), None, None]),
    ],
)
def test_coordinates_of_two_groups_of_three_among_eight_ranks(
    mapping: str, places: list[tuple[int, int] | None]
) -> None:
    expected = [None if place is None else Coordinates(*place) for place in places]
    assert [coordinates(rank, 2, 3, mapping) for rank in range(8)] == expected


@given(st.integers(1, 30), st.integers(1, 30), st.integers(0, 40), st.sampled_from(["row", "column"]))
def test_each_place_is_taken_once_and_other_ranks_are_idle(groups: int, degree: int, idle: int, mapping: str) -> None:
    places = [coordinates(rank, groups, degree, mapping) for rank in range(groups * degree + idle)]
    taken = [place for place in places if place is not None]
    assert places[groups * degree :] == [None] * idle
    assert sorted((place.group, place.member) for place in taken) == [
        (group, member) for group in range(groups) for member in range(degree)
    ]
    # the member order inside a group follows the ranks, so the group's first rank is its leader
    for group in range(groups):
        members = [place.member for place in taken if place.group == group]
        assert members == sorted(members)
    steps = {1} if mapping == "row" else {groups}
    ranks = [rank for rank, place in enumerate(places) if place and place.group == 0]
    assert {later - earlier for earlier, later in pairwise(ranks)} <= steps


@pytest.mark.parallel(4)
def test_communicators_of_every_possible_grid() -> None:
    from mpi4py import MPI

    world = MPI.COMM_WORLD
    fitting = [shape for shape in SHAPES if shape[0] * shape[1] <= world.size]
    assert any(p * q < world.size for p, q, _ in fitting) or world.size == 1
    for groups, degree, mapping in fitting:
        group = split(world, groups, degree, mapping)
        assert (group is None) == (world.rank >= groups * degree)
        assert world.allreduce(int(group is not None)) == groups * degree
        if group is None:
            continue
        assert group.coordinates == coordinates(world.rank, groups, degree, mapping)
        assert (group.active.size, group.model.size, group.across.size) == (groups * degree, degree, groups)
        assert (group.model.rank, group.across.rank) == (group.coordinates.member, group.coordinates.group)
        assert group.leader == (group.model.rank == 0)
        assert group.active.allgather(world.rank) == list(range(groups * degree))
        places = [(rank, coordinates(rank, groups, degree, mapping)) for rank in range(groups * degree)]
        assert group.model.allgather(world.rank) == [
            rank for rank, s in places if s and s.group == group.coordinates.group
        ]
        assert group.across.allgather(world.rank) == [
            rank for rank, s in places if s and s.member == group.coordinates.member
        ]
        group.free()
        assert group.model == group.across == group.active == MPI.COMM_NULL
