"""Formulas of the projection against values by hand."""

from math import isclose, log, pi, sqrt

import numpy as np
import pytest

from hpcai.errors import InputError
from hpcai.formulas.all_reduce_cost import COSTS, Link, Links, flat, hierarchical, ring, torus, tree
from hpcai.formulas.extremes import deviation_from_quantiles, deviation_from_range, largest_of
from hpcai.formulas.overlap import exposed
from hpcai.networks import build
from hpcai.projection.gradients import Profile, buckets, profile
from hpcai.projection.machine import Buckets
from hpcai.projection.model import Compute, Training, project

INSIDE, OUTSIDE = Link(1e-6, 1e-9), Link(1e-4, 1e-8)
FOUR_A_NODE = Links(4, INSIDE, OUTSIDE)
MIB = 2**20


@pytest.mark.parametrize(
    ("count", "expected"), [(1, 0.0), (2, 1 / sqrt(pi)), (3, 1.5 / sqrt(pi)), (8, 1.42360), (100, 2.50759)]
)
def test_expected_largest_of_normal_numbers(count: int, expected: float) -> None:
    assert largest_of(count) == pytest.approx(expected, abs=1e-5)


def test_extremes_of_many_grow_as_the_root_of_the_logarithm() -> None:
    assert 0.9 < largest_of(100_000) / sqrt(2 * log(100_000)) < 1


def test_the_range_of_two_is_twice_their_extreme() -> None:
    assert deviation_from_range(2 / sqrt(pi), 2) == pytest.approx(1.0)
    assert deviation_from_range(1.0, 1) == 0.0


def test_the_deviation_of_a_rank_from_the_steps_of_several() -> None:
    """Of two, the larger one is below with the square of one's probability: 0.9747 and 0.7071."""
    assert deviation_from_quantiles(1.6449, 1) == pytest.approx(1.0, abs=1e-4)
    assert deviation_from_quantiles(1.9545 - 0.5450, 2) == pytest.approx(1.0, abs=1e-3)
    draws = np.random.default_rng(0).normal(10.0, 2.0, (100_000, 8)).max(axis=1)
    assert deviation_from_quantiles(np.subtract(*np.quantile(draws, (0.95, 0.5))), 8) == pytest.approx(2.0, rel=0.02)


def test_a_ring_within_a_node() -> None:
    # 2 (4 - 1) messages of 1 us, 2 (4 - 1) / 4 of 4 MB at 1 GB/s
    assert flat(1e6, 4, 4, FOUR_A_NODE) == pytest.approx(6e-6 + 1.5 * 4e6 * 1e-9)
    assert flat(1e6, 4, 1, FOUR_A_NODE) == 0.0


def test_a_ring_over_two_nodes_crosses_twice_two_times() -> None:
    # 14 messages, 2 of them between nodes; 2 (8 - 1) / 8 of 4 MB at the 100 MB/s between nodes
    assert flat(1e6, 4, 8, FOUR_A_NODE) == pytest.approx(12e-6 + 2e-4 + 1.75 * 4e6 * 1e-8)


def test_trees_grow_with_the_logarithm_of_the_nodes() -> None:
    # chains of 4 ranks: 6 messages; 8 nodes: 2 x 3 levels; each byte twice
    assert tree(1e6, 4, 32, FOUR_A_NODE) == pytest.approx(6e-6 + 6e-4 + 2 * 4e6 * 1e-8)


def test_hierarchical_sends_the_parts_of_a_node_over_its_link() -> None:
    within = 6e-6 + 1.5 * 4e6 * 1e-9
    between = 2e-4 + 1.0 * (2e6 / 4) * 4 * 1e-8  # two nodes, halves on the wire; four rings share the link
    assert hierarchical(1e6, 2, 8, FOUR_A_NODE) == pytest.approx(within + between)


def test_a_torus_of_sixteen_has_rows_in_nodes() -> None:
    within = 6e-6 + 1.5 * 4e6 * 1e-9
    between = 6e-4 + 1.5 * 1e6 * 4 * 1e-8  # columns of 4 on 4 nodes, a quarter each, four share the link
    assert torus(1e6, 4, 16, FOUR_A_NODE) == pytest.approx(within + between)


def test_a_torus_of_a_prime_is_a_ring() -> None:
    assert torus(1e6, 4, 3, FOUR_A_NODE) == flat(1e6, 4, 3, FOUR_A_NODE)


@pytest.mark.parametrize("name", sorted(COSTS))
def test_an_unknown_link_is_an_error(name: str) -> None:
    with pytest.raises(InputError, match="between nodes are not known; allowed: results with a table"):
        COSTS[name](1e6, 4, 8, Links(4, INSIDE, None))
    assert ring(8.0, 1, 1, Links(1, None, None)) == 0.0


def test_what_a_step_waits_for() -> None:
    assert exposed([(1.0, 2.0), (4.0, 3.0)], 5.0) == 2.0  # the second begins when it is ready
    assert exposed([(1.0, 5.0), (4.0, 3.0)], 5.0) == 4.0  # the second waits for the first
    assert exposed([(1.0, 1.0)], 5.0) == 0.0
    assert exposed([], 5.0) == 0.0


SMALL = Profile(0.5, ((0.25, MIB), (0.5, MIB), (1.0, 10)))


def test_buckets_of_torch_begin_with_a_small_one() -> None:
    found = [*buckets(SMALL, Buckets(), 8.0)]
    assert found == [(2.0, MIB), (8.0, MIB + 10)]


def test_a_cycle_sends_what_is_ready() -> None:
    found = [*buckets(SMALL, Buckets(first=64.0 * MIB, largest=64.0 * MIB, cycle=3.0), 8.0)]
    assert found == [(3.0, MIB), (6.0, MIB), (9.0, 10)]


def test_the_last_gradients_of_a_network_are_ready_at_its_end() -> None:
    graph = build("resnet50", (224, 224), 3, 1000)
    found = profile(graph)
    assert found.elements == 25_557_032
    assert found.gradients[0] == (pytest.approx(8_192_000 / 16_120_709_120), 2_049_000)  # the dense layer
    assert found.gradients[-1][0] == 1.0
    assert isclose(found.backward, 16_120_709_120 / 24_299_077_632)


def test_a_step_by_hand() -> None:
    """Two ranks: the slower one of a spread, and a bucket that is ready when the backward pass ends."""
    of = Training(Profile(0.5, ((1.0, 10**6),)), operations=10, batch=5, samples=100, epochs=2, valid=0.5)
    compute = Compute(mean=1.0, per_byte=1e-8, spread=0.1, data=0.01)
    found = project(of, compute, Links(1, None, OUTSIDE), Buckets(), 1, 2)
    step = 1.0 + 4e6 * 1e-8 + 0.1 / sqrt(pi)
    waited = 2e-4 + 4e6 * 1e-8
    assert (found.compute, found.exposed) == (pytest.approx(step), pytest.approx(waited))
    assert found.seconds == pytest.approx(2 * 10 * (step + waited + 0.01))
    assert found.flops == pytest.approx(2 * 100 * 10 / found.seconds)
    assert found.valid_flops == found.flops / 2


def test_groups_are_independent() -> None:
    of = Training(SMALL, operations=10, batch=5, samples=100, epochs=2)
    one, many = (project(of, Compute(1.0), Links(1, None, None), Buckets(), p, 1) for p in (1, 1000))
    assert many.seconds == one.seconds and many.flops == pytest.approx(1000 * one.flops)
    uneven = project(of, Compute(1.0, ranks_spread=0.1), Links(1, None, None), Buckets(), 1000, 1)
    assert uneven.seconds == pytest.approx(one.seconds * (1 + 0.1 * largest_of(1000)))


def test_a_step_of_more_than_an_epoch_is_refused() -> None:
    of = Training(SMALL, operations=10, batch=5, samples=100, epochs=2)
    with pytest.raises(InputError, match="a step of 105 samples is more than an epoch of 100"):
        project(of, Compute(1.0), FOUR_A_NODE, Buckets(), 1, 21)
