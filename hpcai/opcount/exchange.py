"""Values that the ranks of a tensor-parallel network exchange: by formula, to compare with what was counted."""

from math import prod

from hpcai.inputfile.split import Cut
from hpcai.networks.collective_layers import COLLECTIVE, AllGather, ReduceScatter
from hpcai.networks.graph import Graph, Layer
from hpcai.opcount.stages import parts_of


def exchanged_values(graph: Graph, cut: Cut) -> float:
    """Channel values that a rank sends for a sample in a training step, on average over the ranks of a replica.

    A reduce-scatter and an all-gather send (Q - 1) / Q of the whole tensor, an all-reduce twice that (Thakur et al.,
    Optimization of Collective Communication Operations in MPICH, 2005).
    """
    parts = [part.graph for part in parts_of(graph, cut, 0)]
    exchanges = [(part, layer) for part in parts for layer in part.layers if isinstance(layer.op, COLLECTIVE)]
    passes = sum(_passes(layer) * _whole(part, layer) for part, layer in exchanges)
    return passes * (cut.shards - 1) / cut.parts


def _passes(layer: Layer) -> int:
    """How many times the whole tensor is scattered or gathered, forward and backward together."""
    match layer.op:
        case AllGather(divided=False):
            return 1
    return 2


def _whole(part: Graph, layer: Layer) -> int:
    """Values of the whole tensor of a sample."""
    op, shape = layer.op, part.shapes[layer.name]
    channels = op.channels if isinstance(op, ReduceScatter | AllGather) else shape[0]
    return channels * prod(shape[1:])
