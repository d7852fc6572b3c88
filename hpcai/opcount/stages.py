"""The stages into which a pipeline cuts a network: nearly equal operations, few values sent.

The heaviest stage has as few operations by rule `model` as any cut into so many consecutive parts allows. Of the cuts
with such a heaviest stage, or one heavier by SLACK at most, that is taken where the fewest values cross.
"""

from functools import lru_cache
from itertools import accumulate, pairwise
from math import prod

from hpcai.errors import InputError
from hpcai.networks.graph import Graph
from hpcai.networks.stages import crossing, cut_places, stage_graph
from hpcai.networks.tensor_parallel import TensorPart, tensor_part
from hpcai.opcount import count

SLACK = 0.02


@lru_cache(maxsize=16)
def stages_of(graph: Graph, stages: int) -> tuple[Graph, ...]:
    """The stages of a network; InputError if it has fewer layers with operations than stages."""
    return tuple(stage_graph(graph, begin, end) for begin, end in pairwise(_bounds(graph, stages)))


def parts_of(graph: Graph, stages: int, shard: int, shards: int) -> tuple[TensorPart, ...]:
    """The part of a shard of each stage, without shards the stages themselves."""
    parts: list[TensorPart] = []
    for stage in stages_of(graph, stages):
        sharded = frozenset().union(*(part.sharded for part in parts))
        parts.append(tensor_part(stage, shard, shards, sharded))
    return tuple(parts)


def operations_of(graph: Graph, stages: int) -> tuple[int, ...]:
    """Operations of a training sample by stage, by rule `model`."""
    return tuple(count(stage, "model").total for stage in stages_of(graph, stages))


def sent_values(graph: Graph, stages: int, shards: int = 1) -> int:
    """Values of a sample that a replica sends between stages in a training step: outputs forward, gradients backward.

    An output that each of several shards has whole is sent by each of them.
    """
    sharded = frozenset().union(*(part.sharded for part in parts_of(graph, stages, 0, shards)))
    return sum(
        _values(graph, name) * (1 if name in sharded else shards)
        for place in _bounds(graph, stages)[1:-1]
        for name in crossing(graph, place)
    )


def parameters_of_a_rank(graph: Graph, stages: int, shards: int) -> float:
    """Parameters of a rank's part, on average over the ranks of a replica."""
    parts = [parts_of(graph, stages, shard, shards) for shard in range(shards)]
    return sum(sum(part.graph.parameters.values()) for each in parts for part in each) / (shards * stages)


def _values(graph: Graph, name: str) -> int:
    """Values of an output, twice if it has a gradient."""
    return (1 + (name in graph.trained)) * prod(graph.shapes[name])


def _bounds(graph: Graph, stages: int) -> list[int]:
    """The first places of all stages, and the place after the last layer."""
    costs = [0] * len(graph.inputs) + [row.forward + row.backward for row in count(graph, "model").layers]
    before = [0, *accumulate(costs)]
    places = [0, *cut_places(graph), len(graph.layers)]
    products = sum(cost > 0 for cost in costs)
    if stages > products:
        raise InputError(f"{products} layers have operations, too few for {stages} stages; allowed: 1 to {products}")
    most = _smallest_maximum(places, before, stages)
    return _fewest_values(graph, places, before, stages, most * (1 + SLACK))


def _smallest_maximum(places: list[int], before: list[int], stages: int) -> int:
    """Operations of the heaviest stage of the most even cut, by bisection."""
    low, high = 0, before[-1]
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if _fits(places, before, stages, middle) else (middle + 1, high)
    return low


def _fits(places: list[int], before: list[int], stages: int, most: int) -> bool:
    """Whether stages of at most so many operations, each as long as possible, reach the end."""
    begin = 0
    for _ in range(stages):
        begin = max(place for place in places if place >= begin and before[place] - before[begin] <= most)
    return begin == places[-1]


def _fewest_values(graph: Graph, places: list[int], before: list[int], stages: int, most: float) -> list[int]:
    """Of the cuts into stages with operations, at most so many each, that with the fewest values sent."""
    values = {place: sum(_values(graph, name) for name in crossing(graph, place)) for place in places}
    best: dict[int, tuple[int, list[int]]] = {0: (0, [0])}  # values and bounds, by first place of the next stage
    for _ in range(stages):
        found: dict[int, tuple[int, list[int]]] = {}
        for end in places:
            ways = [way for begin, way in best.items() if 0 < before[end] - before[begin] <= most]
            if ways:
                sent, bounds = min(ways)
                found[end] = sent + values[end], [*bounds, end]
        best = found
    return best[places[-1]][1]
