"""Distances equal those of the plain algorithm, and grow with the changes."""

import random
from dataclasses import replace

import numpy as np
import pytest
from random_graphs import drawn, some_graph

from hpcai import networks
from hpcai.networks import morphism
from hpcai.networks.graph import Graph
from hpcai.networks.morphism import Deepen, Kernel, Skip, Widen
from hpcai.search.edit_distance import Features, Rows, distances, features, packed


def distance(one: Graph, other: Graph) -> float:
    return float(distances(features(one), packed([features(other)]))[0])


def plain(one: Rows, other: Rows) -> float:
    """Cost of the best alignment by the whole table."""
    table = np.add.outer(np.arange(len(one) + 1.0), np.arange(len(other) + 1.0))
    for i, row in enumerate(one.tolist(), start=1):
        for j, column in enumerate(other.tolist(), start=1):
            differ = sum(1 - min(a, b) / max(a, b, 1) if a != b else 0 for a, b in zip(row, column, strict=True)) / 3
            table[i, j] = min(table[i - 1, j - 1] + differ, table[i - 1, j] + 1, table[i, j - 1] + 1)
    return float(table[-1, -1])


def descendants(graph: Graph, count: int, dice: random.Random) -> list[Graph]:
    """The graph, and its descendants, morphism by morphism."""
    found = [graph]
    for _ in range(count):
        change = drawn(found[-1], dice.choice([*morphism.KINDS]), dice)
        found.append(change.apply(found[-1]) if change else found[-1])
    return found


def test_each_distance_equals_that_of_the_plain_algorithm() -> None:
    dice = random.Random(2)
    graphs = [graph for _ in range(4) for graph in descendants(some_graph(dice), 8, dice)]
    known = [features(graph) for graph in graphs]
    found = np.array([distances(one, packed(known)) for one in known])
    wanted = [[plain(a.layers, b.layers) + plain(a.skips, b.skips) for b in known] for a in known]
    np.testing.assert_allclose(found, wanted, atol=1e-12)
    assert (found == found.T).all()
    assert (found.diagonal() == 0).all()


@pytest.mark.parametrize(("long", "short"), [(60, 60), (60, 30), (30, 60), (1, 0), (0, 0), (40, 1)])
def test_distances_of_very_different_lengths(long: int, short: int) -> None:
    generator = np.random.default_rng(long)
    one, other = (generator.integers(1, 99, (count, 3)) for count in (long, short))
    none = np.empty((0, 3), np.int64)
    found = distances(Features(one, none), packed([Features(other, none), Features(none, other)]))
    np.testing.assert_allclose(found, [plain(one, other), long + short], atol=1e-12)


def test_an_alignment_far_from_the_diagonal_is_found() -> None:
    """The first layers of one are the last of the other, and nothing else is equal."""
    rows = 10 ** np.random.default_rng(1).integers(0, 12, (80, 3))
    one, other = rows[:60], rows[20:]
    none = np.empty((0, 3), np.int64)
    assert plain(one, other) == 40
    assert distances(Features(one, none), packed([Features(other, none)])) == [40]


def test_the_distance_grows_with_the_number_of_morphisms() -> None:
    dice = random.Random(4)
    graph = networks.build("resnet8", (32, 32), 3, 10, "v1")
    paths = [[distance(graph, child) for child in descendants(graph, 16, dice)] for _ in range(15)]
    medians = np.median(paths, axis=0)[[0, 2, 4, 8, 16]]
    assert medians[0] == 0
    assert (np.diff(medians) > 0.5).all()


def test_the_cost_of_each_morphism() -> None:
    graph = networks.build("resnet8", (32, 32), 3, 10, "v1")
    assert distance(graph, Deepen("stem_relu", 3).apply(graph)) == 1
    assert distance(graph, Widen("stage1_block1_conv1", 32).apply(graph)) == pytest.approx(1 / 6)
    assert distance(graph, Kernel("stage1_block1_conv1", 5).apply(graph)) == pytest.approx(2 / 15)
    assert distance(graph, Skip("stem_relu", "stage3_block1_add").apply(graph)) == 2


def test_names_do_not_matter() -> None:
    graph = networks.build("resnet8", (32, 32), 3, 10, "v1")
    other = Graph(
        tuple(
            replace(layer, name=f"{layer.name}_", inputs=tuple(f"{name}_" for name in layer.inputs))
            for layer in graph.layers
        )
    )
    assert distance(graph, other) == 0


def test_no_graphs_give_no_distances() -> None:
    graph = networks.build("resnet8", (32, 32), 3, 10, "v1")
    assert distances(features(graph), packed([])).shape == (0,)
