"""What belongs together in a graph: maps whose channels are the same ones, and maps that are nowhere negative."""

from collections.abc import Iterator
from dataclasses import dataclass

from hpcai.errors import InputError
from hpcai.networks.graph import Graph, Layer
from hpcai.networks.layers import Add, BatchNorm, Conv, Dense, GlobalPool, Input, MaxPool, Relu, Softmax

ELEMENTWISE = (Add, BatchNorm, GlobalPool, MaxPool, Relu)  # channel c of what they make is channel c of what they read
KNOWN = (*ELEMENTWISE, Conv, Dense, Input, Softmax)


@dataclass(frozen=True)
class Space:
    """Layers whose outputs have the same channels: those that make them, those that keep them, those that read them."""

    makers: tuple[str, ...]
    keepers: tuple[str, ...]
    readers: tuple[str, ...]


def spaces(graph: Graph) -> dict[str, Space]:
    """By the name of each convolution: all that has to change with the number of its channels.

    An Add ties its inputs together, so a space may reach across stages. Spaces with the image or a dense layer among
    the makers, or with grouped convolutions among the makers or readers, are left out: they cannot be widened.
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
        maker: space
        for space in spaces.values()
        if all(isinstance(ops[name], Conv) for name in space.makers)
        and all(getattr(ops[name], "groups", 1) == 1 for name in (*space.makers, *space.readers))
        for maker in space.makers
    }


def _roots(graph: Graph) -> dict[str, str]:
    """One name for all layers of a space, by layer: disjoint sets, joined where a layer keeps its inputs' channels."""
    root = {layer.name: layer.name for layer in graph.layers}

    def find(name: str) -> str:
        while root[name] != name:
            name = root[name]
        return name

    for layer in graph.layers:
        if isinstance(layer.op, ELEMENTWISE):
            for source in layer.inputs:
                root[find(layer.name)] = find(source)
    return {name: find(name) for name in root}


def _space(graph: Graph, root: dict[str, str], name: str, members: list[Layer]) -> Space:
    makers = tuple(layer.name for layer in members if isinstance(layer.op, Conv | Dense | Input))
    keepers = tuple(layer.name for layer in members if layer.name not in makers)
    readers = (
        layer.name for layer in graph.layers if isinstance(layer.op, Conv | Dense) and root[layer.inputs[0]] == name
    )
    return Space(makers, keepers, tuple(readers))


def nonnegative(graph: Graph) -> Iterator[str]:
    """Layers whose maps are nowhere negative, whatever the weights: those a ReLU does not change.

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
