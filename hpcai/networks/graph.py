"""A network as data: named layers in the order they are computed, and the edges between them.

A graph never changes. An edited copy is a new one, checked as a whole, so that several layers may change at once:
`Graph(tuple(replace(layer, op=wider) if layer.name == name else layer for layer in graph.layers))`.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from types import MappingProxyType

from hpcai.errors import InputError
from hpcai.networks.layers import Input, Op, Received, Shape, Softmax


@dataclass(frozen=True, slots=True)
class Layer:
    """One layer: its name (an identifier), what it computes, and the names of the layers it reads.

    `shares` names an earlier layer, if any, whose op lends its weights to this one, which has as many.
    """

    name: str
    op: Op
    inputs: tuple[str, ...] = ()
    shares: str = ""

    @property
    def lender(self) -> str:
        """The layer whose weights this one computes with: the one that it shares them with, or itself."""
        return self.shares or self.name


@dataclass(frozen=True)
class Graph:
    """Layers in the order of execution: the first is the only Input, the last the only one nobody reads.

    A later stage of a pipeline begins with Received layers instead of the Input.

    Raises InputError that names the layer and what is wrong with it. Equal layers make equal graphs.
    """

    layers: tuple[Layer, ...]

    def __post_init__(self) -> None:
        _check_names(self.layers)
        _check_edges(self.layers)
        _check_ends(self.layers)
        self.shapes  # noqa: B018 - raises where shapes do not fit
        _check_shared(self.layers, self.weights)

    def __reduce__(self) -> tuple[type["Graph"], tuple[tuple[Layer, ...]]]:
        return Graph, (self.layers,)

    @cached_property
    def shapes(self) -> Mapping[str, Shape]:
        """Shape of each layer's output for one sample, by name."""
        shapes: dict[str, Shape] = {}
        for layer in self.layers:
            try:
                shapes[layer.name] = layer.op.shape(*(shapes[name] for name in layer.inputs))
            except ValueError as error:
                raise _error(layer, str(error)) from None
        return MappingProxyType(shapes)

    @cached_property
    def inputs(self) -> tuple[Layer, ...]:
        """The layers that are given: the Input, or the Received ones of a stage."""
        return tuple(layer for layer in self.layers if isinstance(layer.op, Input | Received))

    @cached_property
    def computed(self) -> tuple[Layer, ...]:
        """The layers that read others."""
        return self.layers[len(self.inputs) :]

    @cached_property
    def places(self) -> Mapping[str, int]:
        """Place of each layer in the order of execution, from 0, by name."""
        return MappingProxyType({layer.name: place for place, layer in enumerate(self.layers)})

    @cached_property
    def readers(self) -> Mapping[str, int]:
        """How many times each layer's output is read, by name; an Add of a layer to itself reads it twice."""
        return MappingProxyType(Counter(name for layer in self.layers for name in layer.inputs))

    @cached_property
    def receivers(self) -> Mapping[str, int]:
        """Number of gradients that arrive at each layer's output, by name: one from each reader that has a gradient."""
        return MappingProxyType(
            Counter(name for layer in self.layers if layer.op.differentiable for name in layer.inputs)
        )

    @cached_property
    def weights(self) -> Mapping[str, int]:
        """Number of trained values that each layer computes with, if any, by name: its own or another layer's."""
        counts = {layer.name: layer.op.parameters(self.shapes[layer.inputs[0]]) for layer in self.computed}
        return MappingProxyType({name: count for name, count in counts.items() if count})

    @cached_property
    def parameters(self) -> Mapping[str, int]:
        """Number of trained values of each layer that has some of its own, by name; what is shared counts once."""
        own = {layer.name for layer in self.layers if not layer.shares}
        return MappingProxyType({name: count for name, count in self.weights.items() if name in own})

    @cached_property
    def trained(self) -> frozenset[str]:
        """Layers whose output depends on a parameter, and that a gradient flows back through."""
        trained = {layer.name for layer in self.inputs if isinstance(layer.op, Received) and layer.op.trained}
        for layer in self.computed:
            if layer.op.differentiable and (layer.name in self.weights or trained.intersection(layer.inputs)):
                trained.add(layer.name)
        return frozenset(trained)


def _check_names(layers: tuple[Layer, ...]) -> None:
    for name, times in Counter(layer.name for layer in layers).items():
        if times > 1:
            raise InputError(f"layer {name!r} is defined {times} times; names must differ")
        if not (name.isidentifier() and name.isascii()):
            raise InputError(f"layer name {name!r} is not allowed; names are letters, digits and _")


def _check_edges(layers: tuple[Layer, ...]) -> None:
    names = {layer.name for layer in layers}
    known: set[str] = set()
    for layer in layers:
        expected = f"{layer.op.arity}{' or more' if layer.op.more else ''}"
        if len(layer.inputs) != layer.op.arity and not (layer.op.more and len(layer.inputs) > layer.op.arity):
            raise _error(layer, f"reads {len(layer.inputs)} layers, should read {expected}")
        for name in layer.inputs:
            if name not in names:
                raise _error(layer, f"reads {name!r}, which does not exist")
            if name not in known:
                raise _error(layer, f"reads {name!r}, which is not computed before it")
        known.add(layer.name)


def _check_shared(layers: tuple[Layer, ...], weights: Mapping[str, int]) -> None:
    """A layer can share the weights of an earlier one with as many weights whose op lends them."""
    own: dict[str, Layer] = {}
    for layer in layers:
        if not layer.shares:
            own[layer.name] = layer
        elif layer.shares not in own or layer.name not in weights:
            raise _error(layer, f"shares weights of {layer.shares!r}, which has none of its own before it")
        elif not own[layer.shares].op.lends_to(layer.op) or weights[layer.shares] != weights[layer.name]:
            raise _error(layer, f"shares weights of {layer.shares!r}, which computes something else")


def _check_ends(layers: tuple[Layer, ...]) -> None:
    if not layers or not isinstance(layers[0].op, Input | Received):
        raise InputError("the first layer of a network must be its input")
    if len(layers) < 2:
        raise _error(layers[0], "a network has at least one more layer")
    read = {name for layer in layers for name in layer.inputs}
    for before, layer in pairwise(layers):
        if isinstance(layer.op, Input) or (isinstance(layer.op, Received) and not isinstance(before.op, Received)):
            raise _error(layer, "a network has one input, its first layer")
    for layer in layers[:-1]:
        if layer.name not in read:
            raise _error(layer, "is read by no layer; only the last may be")
        if isinstance(layer.op, Softmax):
            raise _error(layer, "only the last layer may be a softmax")


def _error(layer: Layer, reason: str) -> InputError:
    return InputError(f"layer {layer.name!r} ({layer.op.kind}): {reason}")
