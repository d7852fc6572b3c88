"""Edit distance of networks: the cost of turning the layers and skips of one network into those of another.

After Jin et al., "Auto-Keras", 2019 (arXiv:1806.10282), section 3.1, whose distance has these two parts but
other costs. Only a band of diagonals is computed where the best alignment cannot leave it (Ukkonen, "Algorithms
for approximate string matching", 1985).
"""

from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hpcai.kernels.cpu.compiled import compiled
from hpcai.networks.graph import Graph, Layer
from hpcai.networks.layers import Add, Conv

COLUMNS = 3
FIRST_BAND = 8  # diagonals on either side
Rows = NDArray[np.int64]
Floats = NDArray[np.float64]


class Features(NamedTuple):
    """Features of a network, int64[n, 3] each, in the order of execution.

    Of each convolution: channels, side of the kernel, side of the map. Of each skip, which is an input of a sum other
    than the deepest: channels, side of the map, and the number of convolutions from the fork to the sum on the deepest
    branch.
    """

    layers: Rows
    skips: Rows


class Packed(NamedTuple):
    """The features of many networks, concatenated; those of network i begin at entry i of the bounds."""

    layers: Rows
    layer_bounds: Rows
    skips: Rows
    skip_bounds: Rows


def features(graph: Graph) -> Features:
    """Features of a graph; they do not depend on names of layers."""
    shapes = graph.shapes
    layers = [
        (layer.op.channels, layer.op.kernel[0], shapes[layer.name][1])
        for layer in graph.layers
        if isinstance(layer.op, Conv)
    ]
    return Features(_rows(layers), _rows([*_skips(graph)]))


def packed(networks: Sequence[Features]) -> Packed:
    """The features of many networks, concatenated."""
    return Packed(
        np.concatenate([_rows([]), *(network.layers for network in networks)]),
        np.array([0, *accumulate(len(network.layers) for network in networks)]),
        np.concatenate([_rows([]), *(network.skips for network in networks)]),
        np.array([0, *accumulate(len(network.skips) for network in networks)]),
    )


def distances(one: Features, others: Packed) -> Floats:
    """Distances from one network to each of the others, float64[n]: least costs of aligning layers, and skips.

    A layer or skip without a partner costs 1; two partners cost their relative difference, at most 1. Symmetric, and 0
    between networks with equal features.
    """
    of_layers = _aligned_with_all(one.layers, others.layers, others.layer_bounds)
    total: Floats = of_layers + _aligned_with_all(one.skips, others.skips, others.skip_bounds)
    return total


def _rows(values: Sequence[tuple[int, ...]]) -> Rows:
    return np.array(values, np.int64).reshape(-1, COLUMNS)


def _skips(graph: Graph) -> Iterator[tuple[int, int, int]]:
    """Channels, side and length of every input of a sum but the deepest."""
    by_name = {layer.name: layer for layer in graph.layers}
    depth: dict[str, int] = {}
    for layer in graph.layers:
        before = [depth[name] for name in layer.inputs]
        depth[layer.name] = max(before, default=0) + isinstance(layer.op, Conv)
        if isinstance(layer.op, Add):
            channels, side = graph.shapes[layer.name][0], graph.shapes[layer.name][-1]
            deepest = before.index(max(before))
            ways = (name for place, name in enumerate(layer.inputs) if place != deepest)
            for length in sorted(depth[layer.name] - depth[_fork(graph, by_name, name)] for name in ways):
                yield channels, side, length


def _fork(graph: Graph, by_name: dict[str, Layer], name: str) -> str:
    """The fork above a layer: the first layer that others read as well, or that has not exactly one input."""
    while graph.readers[name] == 1 and len(by_name[name].inputs) == 1:
        (name,) = by_name[name].inputs
    return name


@compiled
def _aligned_with_all(one: Rows, others: Rows, bounds: Rows) -> Floats:
    """Least cost of aligning one network with each of the others."""
    costs = np.empty(len(bounds) - 1)
    row_terms, column_terms = _terms(one), _terms(others)
    for place in range(len(costs)):
        costs[place] = _aligned(row_terms, column_terms[bounds[place] : bounds[place + 1]])
    return costs


@compiled
def _terms(rows: Rows) -> Floats:
    """The numbers of each row, and their inverses, which replace divisions: float64[n, 6]."""
    terms = np.empty((len(rows), 2 * COLUMNS))
    for row in range(len(rows)):  # as slices they would take four seconds to compile
        for place in range(COLUMNS):
            terms[row, place] = rows[row, place]
            terms[row, COLUMNS + place] = 1 / (COLUMNS * max(rows[row, place], 1))
    return terms


@compiled
def _aligned(rows: Floats, columns: Floats) -> float:
    """Least cost of an alignment in order; an alignment that leaves the band costs more than the band is wide."""
    longest = max(len(rows), len(columns))
    band = FIRST_BAND + abs(len(rows) - len(columns))
    cost = _within(rows, columns, band)
    while cost > band + 1 and band < longest:
        band *= 2
        cost = _within(rows, columns, band)
    return cost


@compiled
def _within(rows: Floats, columns: Floats, band: int) -> float:
    """Least cost of an alignment in order within a band of diagonals."""
    costs = np.full(len(columns) + 2, np.inf)
    for place in range(min(band + 1, len(costs))):
        costs[place] = place
    for row in range(len(rows)):
        begin, end = max(0, row - band), min(len(columns), row + band + 1)
        above = costs[begin]
        left = costs[begin] = row + 1.0 if begin == 0 else np.inf
        for column in range(begin, end):
            paired = above
            for place in range(COLUMNS):
                least = min(rows[row, COLUMNS + place], columns[column, COLUMNS + place])
                paired += abs(rows[row, place] - columns[column, place]) * least
            above = costs[column + 1]
            left = costs[column + 1] = min(paired, above + 1, left + 1)
    return costs[len(columns)]
