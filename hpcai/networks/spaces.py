"""Channel spaces of a graph: layers whose outputs share their channels, and outputs that are never negative."""

from collections.abc import Iterator
from dataclasses import dataclass

from hpcai.errors import InputError
from hpcai.networks.graph import Graph, Layer
from hpcai.networks.layers import Add, BatchNorm, Conv, Dense, GlobalPool, Input, MaxPool, Relu, Softmax

CHANNELWISE = (Add, BatchNorm, GlobalPool, MaxPool, Relu)  # channel c of the output depends on channel c of the inputs
KNOWN = (*CHANNELWISE, Conv, Dense, Input, Softmax)


@dataclass(frozen=True)
class Space:
    """Layers that share their channels: those that produce, those that preserve and those that read them."""

    producers: tuple[str, ...]
    preservers: tuple[str, ...]
    readers: tuple[str, ...]


def spaces(graph: Graph) -> dict[str, Space]:
    """The space of each convolution, by its name: all layers that change with the number of its channels.

    An Add ties its inputs together, so a space may reach across stages. Spaces with the image or a dense layer among
    the producers, or with grouped convolutions among the producers or readers, cannot be widened and are left out.
    InputError for a network of other kinds of layers, or with shared weights.
    """
    _check_known(graph)
    root = _roots(graph)
    found: dict[str, list[Layer]] = {}
    for layer in graph.layers:
        found.setdefault(root[layer.name], []).append(layer)
    spaces = {name: _space(graph, root, name, members) for name, members in found.items()}
    ops = {layer.name: layer.op for layer in graph.layers}
    return {
        producer: space
        for space in spaces.values()
        if all(isinstance(ops[name], Conv) for name in space.producers)
        and all(getattr(ops[name], "groups", 1) == 1 for name in (*space.producers, *space.readers))
        for producer in space.producers
    }


def _roots(graph: Graph) -> dict[str, str]:
    """The representative of each layer's space: disjoint sets, united where a layer preserves its inputs' channels."""
    root = {layer.name: layer.name for layer in graph.layers}

    def find(name: str) -> str:
        while root[name] != name:
            name = root[name]
        return name

    for layer in graph.layers:
        if isinstance(layer.op, CHANNELWISE):
            for source in layer.inputs:
                root[find(layer.name)] = find(source)
    return {name: find(name) for name in root}


def _space(graph: Graph, root: dict[str, str], name: str, members: list[Layer]) -> Space:
    producers = tuple(layer.name for layer in members if isinstance(layer.op, Conv | Dense | Input))
    preservers = tuple(layer.name for layer in members if layer.name not in producers)
    readers = (
        layer.name for layer in graph.layers if isinstance(layer.op, Conv | Dense) and root[layer.inputs[0]] == name
    )
    return Space(producers, preservers, tuple(readers))


def nonnegative(graph: Graph) -> Iterator[str]:
    """Layers whose outputs are never negative, whatever the weights: those that a ReLU does not change.

    InputError as above.
    """
    _check_known(graph)
    known: set[str] = set()
    for layer in graph.layers:
        follows = isinstance(layer.op, Add | MaxPool) and known.issuperset(layer.inputs)
        if isinstance(layer.op, Relu) or follows:
            known.add(layer.name)
            if len(graph.shapes[layer.name]) == 3:
                yield layer.name


def _check_known(graph: Graph) -> None:
    for layer in graph.layers:
        if not isinstance(layer.op, KNOWN) or layer.shares:
            raise InputError(f"layer {layer.name!r} ({layer.op.kind}): networks with such a layer cannot be changed")
