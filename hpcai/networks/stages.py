"""Pipeline parallelism: the stages of a network, consecutive layers each, and the tensors that cross between them.

An output that a later stage reads passes through all stages between: each receives it and sends it on. Weights that
layers of several stages share are on each of them: the copies have one gradient, the sum of theirs.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple

from hpcai.networks.graph import Graph, Layer
from hpcai.networks.layers import Op, Received

SENT = "sent"  # name of the last layer of all stages but the last


@dataclass(frozen=True, slots=True)
class Sent(Op):
    """What a stage sends to the next one: a tuple of outputs, in the order in which they were computed."""

    kind: ClassVar[str] = "sent"
    more: ClassVar[bool] = True


class Tied(NamedTuple):
    """Weights of which several stages have a copy: the layer that has them in the network, and by stage in each."""

    weights: str
    layers: Mapping[int, str]


def crossing(graph: Graph, place: int) -> tuple[str, ...]:
    """Layers before a place in the order of execution whose outputs are read at the place or after it."""
    read = {name for layer in graph.layers[place:] for name in layer.inputs}
    return tuple(layer.name for layer in graph.layers[:place] if layer.name in read)


def stage_graph(graph: Graph, begin: int, end: int) -> Graph:
    """The layers from one place to before another, with those that receive and send at its ends.

    The first layer that shares weights of an earlier stage has a copy of them.
    """
    received = tuple(_received(graph, name) for name in crossing(graph, begin))
    sent = (Layer(SENT, Sent(), crossing(graph, end)),) if end < len(graph.layers) else ()
    return Graph((*received, *_with_copies(graph.layers[begin:end]), *sent))


def _with_copies(layers: Sequence[Layer]) -> Iterator[Layer]:
    there, first = {layer.name for layer in layers}, dict[str, str]()
    for layer in layers:
        if layer.shares and layer.shares not in there:
            copy = first.setdefault(layer.shares, layer.name)
            yield replace(layer, shares=copy if copy != layer.name else "")
        else:
            yield layer


def tied(graph: Graph, stages: Sequence[Graph]) -> tuple[Tied, ...]:
    """The weights of a network of which several of its stages have a copy."""
    lenders = {layer.name: layer.lender for layer in graph.layers}
    found: dict[str, dict[int, str]] = {name: {} for name in graph.parameters}
    for number, stage in enumerate(stages):
        for name in stage.parameters:
            found[lenders[name]][number] = name
    return tuple(Tied(weights, layers) for weights, layers in found.items() if len(layers) > 1)


def _received(graph: Graph, name: str) -> Layer:
    return Layer(name, Received(graph.shapes[name], name in graph.trained))


def received_by(graph: Graph) -> tuple[Received, ...]:
    """What a stage receives; nothing if it is the first."""
    return tuple(layer.op for layer in graph.inputs if isinstance(layer.op, Received))
