"""Memory of what the ranks that share a network exchange: channels of shards, outputs of stages, tied gradients."""

from math import prod

from hpcai.networks.collective_layers import COLLECTIVE
from hpcai.networks.graph import Graph
from hpcai.networks.layers import Received
from hpcai.networks.stages import Sent

FP32_BYTES, FP64_BYTES = 4, 8


def exchange_bytes(graph: Graph, batch: int, element: int) -> int:
    """Bytes in which a tensor-parallel network packs channels for other ranks and receives theirs.

    Each rank sends and receives all channels but its own, of one pass or the other.
    """
    return 2 * _exchanged(graph, batch) * element


def replayed_exchange_bytes(graph: Graph, batch: int) -> int:
    """Bytes of an exchange of a replay: the whole tensor before and after it, and its sum in float64."""
    return _exchanged(graph, batch) * (2 * FP32_BYTES + FP64_BYTES)


def _exchanged(graph: Graph, batch: int) -> int:
    """Elements of the largest tensor whose channels ranks exchange."""
    exchanges = (layer for layer in graph.layers if isinstance(layer.op, COLLECTIVE))
    sizes = (prod(graph.shapes[name]) for layer in exchanges for name in (layer.name, layer.inputs[0]))
    return batch * max(sizes, default=0)


def crossing_bytes(graph: Graph, batch: int, element: int) -> int:
    """Bytes of what a stage of a pipeline receives and sends."""
    names = [layer.name for layer in graph.inputs if isinstance(layer.op, Received)]
    last = graph.layers[-1]
    names += last.inputs if isinstance(last.op, Sent) else ()
    return batch * sum(prod(graph.shapes[name]) for name in names) * element


def tied_bytes(whole: Graph, graph: Graph, element: int) -> int:
    """Bytes of a gradient that another stage sends, of weights which it has as well, and of the sum of both."""
    lenders, there = {layer.name: layer.lender for layer in whole.layers}, {*graph.places}
    own = {lenders[name] for name in graph.parameters}
    elsewhere = {lenders[name] for name in whole.weights if name not in there}
    return 2 * element * sum(whole.parameters[name] for name in own & elsewhere)
