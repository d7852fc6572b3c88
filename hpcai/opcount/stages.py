"""The stages into which a pipeline cuts a network: nearly equal times, few values sent.

A stage's time is taken to be that of its operations by rule `model`, and as long again for PARAMETER_OPERATIONS of
them for each parameter and micro-batch, whatever its samples. The slowest stage is as fast as any cut into so many
consecutive parts allows. Of the cuts with such a slowest stage, or one slower by SLACK at most, that is taken where the
fewest values cross.
"""

from bisect import bisect_left
from functools import lru_cache
from itertools import accumulate, pairwise
from math import inf, prod

from hpcai.errors import InputError
from hpcai.inputfile.split import Cut
from hpcai.networks.graph import Graph
from hpcai.networks.stages import Tied, crossing, stage_graph, tied
from hpcai.networks.tensor_parallel import TensorPart, tensor_part
from hpcai.opcount import count

SLACK = 0.02
# A micro-batch reads or writes a parameter some ten times: forward, in both backward products, to turn it into their
# layouts, to sum its gradients. The number is from benchmarks/pipeline.py.
PARAMETER_OPERATIONS = 200


@lru_cache(maxsize=16)
def stages_of(graph: Graph, cut: Cut) -> tuple[Graph, ...]:
    """The stages of a network; InputError if it has fewer products with weights than stages."""
    return tuple(stage_graph(graph, begin, end) for begin, end in pairwise(_bounds(graph, cut)))


def tied_of(graph: Graph, cut: Cut) -> tuple[Tied, ...]:
    """The weights of which several stages have a copy."""
    return tied(graph, stages_of(graph, cut))


def parts_of(graph: Graph, cut: Cut, shard: int) -> tuple[TensorPart, ...]:
    """The part of a shard of each stage, without shards the stages themselves."""
    parts: list[TensorPart] = []
    for stage in stages_of(graph, cut):
        sharded = frozenset().union(*(part.sharded for part in parts))
        parts.append(tensor_part(stage, shard, cut.shards, sharded))
    return tuple(parts)


def operations_of(graph: Graph, cut: Cut) -> tuple[int, ...]:
    """Operations of a training sample by stage, by rule `model`."""
    return tuple(count(stage, "model").total for stage in stages_of(graph, cut))


def sent_values(graph: Graph, cut: Cut) -> int:
    """Values of a sample that a replica sends between stages in a training step: outputs forward, gradients backward.

    An output that each of several shards has whole is sent by each of them.
    """
    sharded = frozenset().union(*(part.sharded for part in parts_of(graph, cut, 0)))
    return sum(
        _values(graph, name) * (1 if name in sharded else cut.shards)
        for place in _bounds(graph, cut)[1:-1]
        for name in crossing(graph, place)
    )


def tied_values(graph: Graph, cut: Cut) -> int:
    """Values that a replica sends in a training step for gradients of tied weights; each shard has these whole."""
    pairs = sum(graph.parameters[name] * len(layers) * (len(layers) - 1) for name, layers in tied_of(graph, cut))
    return cut.shards * pairs


def parameters_of_a_rank(graph: Graph, cut: Cut) -> float:
    """Parameters of a rank's part, on average over the ranks of a replica.

    Replicated ones are on every shard, tied ones on several stages.
    """
    replicated = frozenset().union(*(part.replicated for part in parts_of(graph, cut, 0)))
    held = [each for stage in stages_of(graph, cut) for each in stage.parameters.items()]
    everywhere = sum(count for name, count in held if name in replicated)
    return (sum(count for _, count in held) + (cut.shards - 1) * everywhere) / cut.parts


def _values(graph: Graph, name: str) -> int:
    """Values of an output, twice if it has a gradient."""
    return (1 + (name in graph.trained)) * prod(graph.shapes[name])


def _bounds(graph: Graph, cut: Cut) -> list[int]:
    """The first places of all stages, and the place after the last layer."""
    before = [0, *accumulate(_costs(graph, cut.samples))]
    # A gradient of its own shows that a stage did its backward pass; attention alone has none.
    rows = count(graph, "model").layers
    some = [0] * len(graph.inputs) + [row.forward > 0 and row.name in graph.weights for row in rows]
    if cut.stages > sum(some):
        allowed = f"allowed: 1 to {sum(some)}"
        raise InputError(f"{sum(some)} layers have operations and weights, too few for {cut.stages} stages; {allowed}")
    products = [0, *accumulate(some)]
    most = _smallest_maximum(before, products, cut.stages)
    return _fewest_values(graph, before, products, cut.stages, most * (1 + SLACK))


def _costs(graph: Graph, samples: int) -> list[int]:
    """Operations of a micro-batch by layer, and those that take as long as its parameters."""
    rows = count(graph, "model").layers
    weights = [PARAMETER_OPERATIONS * graph.weights.get(row.name, 0) for row in rows]
    own = [(row.forward + row.backward) * samples for row in rows]
    return [0] * len(graph.inputs) + [sum(pair) for pair in zip(own, weights, strict=True)]


def _smallest_maximum(before: list[int], products: list[int], stages: int) -> int:
    """The highest cost of a stage of the most even cut into stages with such a layer each, by bisection."""
    low, high = 0, before[-1]
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if _fewest_stages(before, products, middle) <= stages else (middle + 1, high)
    return low


def _fewest_stages(before: list[int], products: list[int], most: int) -> float:
    """Into how few stages with such a layer and a cost of at most `most` each a network can be cut.

    It can then be cut into any larger number of them that it has such layers for.
    """
    fewest: list[float] = [0]  # by the place after the last layer
    for end in range(1, len(before)):
        begins = slice(bisect_left(before, before[end] - most), bisect_left(products, products[end]))
        fewest.append(1 + min(fewest[begins], default=inf))
    return fewest[-1]


def _fewest_values(graph: Graph, before: list[int], products: list[int], stages: int, most: float) -> list[int]:
    """Of the cuts into stages with such a layer and a cost of at most `most` each, that with the fewest values sent."""
    places = range(len(before))
    values = {place: sum(_values(graph, name) for name in crossing(graph, place)) for place in places}
    best: dict[int, tuple[int, list[int]]] = {0: (0, [0])}  # values and bounds, by first place of the next stage
    for _ in range(stages):
        found: dict[int, tuple[int, list[int]]] = {}
        for end in places:
            ways = [
                way
                for begin, way in best.items()
                if before[end] - before[begin] <= most and products[end] > products[begin]
            ]
            if ways:
                sent, bounds = min(ways)
                found[end] = sent + values[end], [*bounds, end]
        best = found
    return best[places[-1]][1]
