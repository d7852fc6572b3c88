"""Network morphisms: changes of a graph that preserve its function when the weights are inherited.

search/weight_inheritance.py computes those weights.

After Wei et al., "Network Morphism", 2016 (arXiv:1603.01670); Chen et al., "Net2Net", 2016 (arXiv:1511.05641); Jin et
al., "Auto-Keras", 2019 (arXiv:1806.10282), section 3. Inserted blocks are convolution, batch norm, ReLU.
"""

from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import Annotated, Any, ClassVar, Literal, get_args

import msgspec
from msgspec import Meta

from hpcai.errors import InputError
from hpcai.networks.graph import Graph, Layer
from hpcai.networks.layers import Add, BatchNorm, Conv, Op, Relu
from hpcai.networks.spaces import nonnegative, spaces

MorphismKind = Literal["deepen", "widen", "kernel", "skip"]
KernelSize = Literal[3, 5, 7]
KERNEL_SIZES: tuple[KernelSize, ...] = get_args(KernelSize)  # sides of the square kernels that are searched
LayerName = Annotated[str, Meta(pattern="^.+$", description="Name of a layer of the parent's network.")]


class MorphismBase(msgspec.Struct, frozen=True, tag_field="operation", forbid_unknown_fields=True):
    """A function-preserving change of a graph; its JSON has the kind in the field `operation`."""

    operation: ClassVar[MorphismKind]

    def apply(self, graph: Graph) -> Graph:
        """The changed graph. InputError where the morphism is not legal in this graph."""
        raise NotImplementedError

    def illegal(self, reason: str) -> InputError:
        """The error of a morphism that is not legal in a graph."""
        return InputError(f"{self.operation}: {reason}")


class Insertion(MorphismBase, frozen=True):
    """A morphism that adds a convolution, its batch norm, and a last layer of the kind `last_kind`."""

    last_kind: ClassVar[str]

    def names(self, graph: Graph) -> tuple[str, str, str]:
        """Names of the three new layers, with the smallest number that is not in use."""
        used = {layer.name for layer in graph.layers}
        kinds = "conv", "norm", self.last_kind
        number = 1
        while any(f"{self.operation}{number}_{kind}" in used for kind in kinds):
            number += 1
        conv, norm, last = (f"{self.operation}{number}_{kind}" for kind in kinds)
        return conv, norm, last


class Deepen(Insertion, frozen=True, tag="deepen"):
    """Insert an identity block behind a layer whose output is nowhere negative; the layer's readers read the block."""

    operation: ClassVar[MorphismKind] = "deepen"
    last_kind: ClassVar[str] = "relu"
    after: LayerName
    kernel: KernelSize

    def apply(self, graph: Graph) -> Graph:
        if self.after not in nonnegative(graph):
            raise self.illegal(f"the output of {self.after!r} may be negative, is no map, or does not exist")
        conv, norm, relu = self.names(graph)
        op = Conv(graph.shapes[self.after][0], (self.kernel,) * 2, padding=(self.kernel // 2,) * 2)
        added = (*_normed(conv, norm, op, self.after), Layer(relu, Relu(), (norm,)))
        return _inserted(graph, self.after, added)


class Widen(MorphismBase, frozen=True, tag="widen"):
    """Give a convolution, and all layers that share its channels, more channels."""

    operation: ClassVar[MorphismKind] = "widen"
    layer: LayerName
    channels: Annotated[int, Meta(ge=1, description="Channels of the widened layer.")]

    def apply(self, graph: Graph) -> Graph:
        space = spaces(graph).get(self.layer)
        if space is None or self.channels <= graph.shapes[self.layer][0]:
            raise self.illegal(f"{self.layer!r} cannot be widened to {self.channels} channels")
        return _replaced(graph, space.producers, channels=self.channels)


class Kernel(MorphismBase, frozen=True, tag="kernel"):
    """Make the kernel of a convolution larger, padded with zeros."""

    operation: ClassVar[MorphismKind] = "kernel"
    layer: LayerName
    size: KernelSize

    def apply(self, graph: Graph) -> Graph:
        op = _op(graph, self.layer)
        if not isinstance(op, Conv) or self.size not in KERNEL_SIZES or not _smaller(op, self.size):
            raise self.illegal(
                f"{self.layer!r} has no odd, square kernel smaller than {self.size}, one of {KERNEL_SIZES}"
            )
        more = (self.size - op.kernel[0]) // 2
        padding = (op.padding[0] + more * op.dilation[0], op.padding[1] + more * op.dilation[1])
        return _replaced(graph, {self.layer}, kernel=(self.size, self.size), padding=padding)


class Skip(Insertion, frozen=True, tag="skip"):
    """Add a branch, a 1 x 1 convolution and a batch norm that begins as zero, from a layer to the input of a ReLU."""

    operation: ClassVar[MorphismKind] = "skip"
    last_kind: ClassVar[str] = "add"
    start: LayerName
    end: LayerName

    def apply(self, graph: Graph) -> Graph:
        stride = _stride(graph, self.start, self.end)
        if stride is None or self.end not in skip_ends(graph):
            raise self.illegal(f"no branch can lead from {self.start!r} to {self.end!r}")
        conv, norm, add = self.names(graph)
        branch = _normed(conv, norm, Conv(graph.shapes[self.end][0], (1, 1), (stride, stride)), self.start)
        if isinstance(_op(graph, self.end), Add):
            return Graph(tuple(_joined(graph.layers, self.end, branch)))
        return _inserted(graph, self.end, (*branch, Layer(add, Add(), (self.end, norm))))


Morphism = Deepen | Widen | Kernel | Skip  # the tagged union that journals and results hold
KINDS: dict[MorphismKind, type[Morphism]] = {kind.operation: kind for kind in (Deepen, Widen, Kernel, Skip)}


def unknown_kind(kind: object) -> InputError:
    """The error of a kind of morphism that does not exist; names the kinds that are allowed."""
    return InputError(f"unknown morphism {kind!r}; allowed are {', '.join(KINDS)}")


def skip_ends(graph: Graph) -> Iterator[str]:
    """Layers that a branch can be added to: batch norms and sums, whose readers are ReLUs and sums."""
    for layer in graph.layers:
        if isinstance(layer.op, BatchNorm | Add) and len(graph.shapes[layer.name]) == 3:
            yield layer.name


def growable_kernels(graph: Graph) -> Iterator[str]:
    """Names of the convolutions whose kernel can be made larger."""
    return (layer.name for layer in graph.layers if isinstance(layer.op, Conv) and _smaller(layer.op, KERNEL_SIZES[-1]))


def skip_starts(graph: Graph, end: str) -> list[str]:
    """Layers at which a branch to `end` can begin."""
    return [layer.name for layer in graph.layers[1:] if _stride(graph, layer.name, end) is not None]


def _smaller(op: Conv, size: int) -> bool:
    return op.kernel[0] == op.kernel[1] in KERNEL_SIZES and op.kernel[0] < size


def _stride(graph: Graph, start: str, end: str) -> int | None:
    """Stride of a 1 x 1 convolution from a layer to a map of the size of `end`; None if no branch can lead there."""
    place, shapes = graph.places, graph.shapes
    if not (start in place and end in place and place[start] < place[end]):
        return None
    if len(shapes[start]) != 3 or len(shapes[end]) != 3 or start in graph.layers[place[end]].inputs:
        return None
    (_, *sides), (_, *wanted) = shapes[start], shapes[end]
    stride = max(-(-side // less) for side, less in zip(sides, wanted, strict=True))
    return stride if [(side - 1) // stride + 1 for side in sides] == wanted else None


def _normed(conv: str, norm: str, op: Conv, source: str) -> tuple[Layer, Layer]:
    """A convolution of a layer's map, and its batch norm."""
    return Layer(conv, op, (source,)), Layer(norm, BatchNorm(), (conv,))


def _op(graph: Graph, name: str) -> Op | None:
    return next((layer.op for layer in graph.layers if layer.name == name), None)


def _replaced(graph: Graph, names: Collection[str], **sizes: Any) -> Graph:
    """The graph with other sizes of some layers."""
    return Graph(
        tuple(replace(layer, op=replace(layer.op, **sizes)) if layer.name in names else layer for layer in graph.layers)
    )


def _inserted(graph: Graph, name: str, added: tuple[Layer, ...]) -> Graph:
    """The graph with `added` behind the named layer, whose readers read the last added layer instead."""
    layers: list[Layer] = []
    for layer in graph.layers:
        inputs = tuple(added[-1].name if source == name else source for source in layer.inputs)
        layers += [replace(layer, inputs=inputs), *(added if layer.name == name else ())]
    return Graph(tuple(layers))


def _joined(layers: tuple[Layer, ...], name: str, branch: tuple[Layer, ...]) -> Iterator[Layer]:
    """The layers with a branch as one more input of a sum."""
    for layer in layers:
        if layer.name == name:
            yield from branch
            layer = replace(layer, inputs=(*layer.inputs, branch[-1].name))
        yield layer

