"""Sums and maxima over ranks: exact, and the same on every rank."""

import pytest


@pytest.mark.parallel(4)
def test_sums_are_exact_far_beyond_64_bits() -> None:
    from mpi4py import MPI

    from hpcai.comm.reductions import largest, sums

    world = MPI.COMM_WORLD
    for base in (0, 1, (1 << 40) - 1, 1 << 40, (1 << 63) - 1, (1 << 64) + 1, (1 << 79) - 1, -1, -(1 << 70)):
        values = [base - 3 * rank for rank in range(world.size)]
        assert sums(world, {"value": values[world.rank]}) == {"value": sum(values)}
    named = sums(world, {"operations": (1 << 78) + world.rank, "images": world.rank, "none": 0})
    ranks = range(world.size)
    assert list(named.items()) == [
        ("operations", sum((1 << 78) + rank for rank in ranks)),
        ("images", sum(ranks)),
        ("none", 0),
    ]
    assert all(type(value) is int for value in named.values())
    assert largest(world, {"up": world.rank + 0.5, "down": -float(world.rank)}) == {
        "up": world.size - 0.5,
        "down": 0.0,
    }
    half = world.Split(world.rank % 2, world.rank)
    assert sums(half, {"value": 1 << 65}) == {"value": half.size << 65}
    half.Free()
