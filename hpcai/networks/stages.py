"""Pipeline parallelism: the stages of a network, consecutive layers each, and the tensors that cross between them.

An output that a later stage reads passes through all stages between: each receives it and sends it on.
"""

from dataclasses import dataclass
from typing import ClassVar

from hpcai.networks.graph import Graph, Layer
from hpcai.networks.layers import Op, Received

SENT = "sent"  # name of the last layer of all stages but the last


@dataclass(frozen=True, slots=True)
class Sent(Op):
    """What a stage sends to the next one: a tuple of outputs, in the order in which they were computed."""

    kind: ClassVar[str] = "sent"
    more: ClassVar[bool] = True


def crossing(graph: Graph, place: int) -> tuple[str, ...]:
    """Layers before a place in the order of execution whose outputs are read at the place or after it."""
    read = {name for layer in graph.layers[place:] for name in layer.inputs}
    return tuple(layer.name for layer in graph.layers[:place] if layer.name in read)


def cut_places(graph: Graph) -> tuple[int, ...]:
    """Places before which a network can be cut: layers that share weights stay together."""
    shared = [(graph.places[layer.shares], place) for place, layer in enumerate(graph.layers) if layer.shares]
    return tuple(
        place for place in range(1, len(graph.layers)) if not any(own < place <= other for own, other in shared)
    )


def stage_graph(graph: Graph, begin: int, end: int) -> Graph:
    """The layers from one place to before another, with those that receive and send at its ends."""
    received = tuple(_received(graph, name) for name in crossing(graph, begin))
    sent = (Layer(SENT, Sent(), crossing(graph, end)),) if end < len(graph.layers) else ()
    return Graph((*received, *graph.layers[begin:end], *sent))


def _received(graph: Graph, name: str) -> Layer:
    return Layer(name, Received(graph.shapes[name], name in graph.trained))


def received_by(graph: Graph) -> tuple[Received, ...]:
    """What a stage receives; nothing if it is the first."""
    return tuple(layer.op for layer in graph.inputs if isinstance(layer.op, Received))
