"""Network morphisms: changes of a graph that preserve its function when the weights are inherited.

search/weight_inheritance.py computes those weights.

After Wei et al., "Network Morphism", 2016 (arXiv:1603.01670); Chen et al., "Net2Net", 2016 (arXiv:1511.05641); Jin et
al., "Auto-Keras", 2019 (arXiv:1806.10282), section 3. What is inserted are blocks: convolution, batch norm, ReLU.
"""

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar

from hpcai.errors import InputError
from hpcai.networks.graph import Graph, Layer
from hpcai.networks.layers import Add, BatchNorm, Conv, Op, Relu
from hpcai.networks.spaces import nonnegative, spaces

KERNELS = (3, 5, 7)  # sides of the kernels that are searched


@dataclass(frozen=True, slots=True)
class Morphism(ABC):
    """A change of a graph; the sub-classes are the kinds. Applied where it is not legal, it raises InputError."""

    operation: ClassVar[str]

    @abstractmethod
    def apply(self, graph: Graph) -> Graph:
        """The changed graph."""

    def to_json(self) -> dict[str, Any]:
        """Its kind, and what it says."""
        return {"operation": self.operation} | {field.name: getattr(self, field.name) for field in fields(self)}


@dataclass(frozen=True, slots=True)
class Insertion(Morphism):
    """One that brings in a convolution, its batch norm, and what takes that up."""

    taken_up_by: ClassVar[str]

    def names(self, graph: Graph) -> tuple[str, str, str]:
        """Of the three layers, with the smallest number that no layer has yet."""
        used = {layer.name for layer in graph.layers}
        kinds = "conv", "norm", self.taken_up_by
        number = 1
        while any(f"{self.operation}{number}_{kind}" in used for kind in kinds):
            number += 1
        conv, norm, last = (f"{self.operation}{number}_{kind}" for kind in kinds)
        return conv, norm, last


@dataclass(frozen=True, slots=True)
class Deepen(Insertion):
    """Insert a block, the identity, behind a layer whose map is nowhere negative: its readers then read the block."""

    operation: ClassVar[str] = "deepen"
    taken_up_by: ClassVar[str] = "relu"
    after: str
    kernel: int = 3

    def apply(self, graph: Graph) -> Graph:
        if self.after not in nonnegative(graph):
            raise _illegal(self, f"the output of {self.after!r} may be negative, is no map, or does not exist")
        conv, norm, relu = self.names(graph)
        op = Conv(graph.shapes[self.after][0], (self.kernel,) * 2, padding=(self.kernel // 2,) * 2)
        added = (*_normed(conv, norm, op, self.after), Layer(relu, Relu(), (norm,)))
        return _inserted(graph, self.after, added)


@dataclass(frozen=True, slots=True)
class Widen(Morphism):
    """Give a convolution, and all that share its channels, more of them."""

    operation: ClassVar[str] = "widen"
    layer: str
    channels: int

    def apply(self, graph: Graph) -> Graph:
        space = spaces(graph).get(self.layer)
        if space is None or self.channels <= graph.shapes[self.layer][0]:
            raise _illegal(self, f"{self.layer!r} cannot be widened to {self.channels} channels")
        return _exchanged(graph, space.makers, channels=self.channels)


@dataclass(frozen=True, slots=True)
class Kernel(Morphism):
    """Make the kernel of a convolution larger, with zeros around it."""

    operation: ClassVar[str] = "kernel"
    layer: str
    size: int

    def apply(self, graph: Graph) -> Graph:
        op = _op(graph, self.layer)
        if not isinstance(op, Conv) or self.size not in KERNELS or not _smaller(op, self.size):
            raise _illegal(self, f"{self.layer!r} has no odd, square kernel smaller than {self.size}, one of {KERNELS}")
        more = (self.size - op.kernel[0]) // 2
        padding = (op.padding[0] + more * op.dilation[0], op.padding[1] + more * op.dilation[1])
        return _exchanged(graph, {self.layer}, kernel=(self.size, self.size), padding=padding)


@dataclass(frozen=True, slots=True)
class Skip(Insertion):
    """Add what a 1 x 1 convolution and a batch norm, which is zero at first, make of a layer to an input of a ReLU."""

    operation: ClassVar[str] = "skip"
    taken_up_by: ClassVar[str] = "add"
    start: str
    end: str

    def apply(self, graph: Graph) -> Graph:
        stride = _stride(graph, self.start, self.end)
        if stride is None or self.end not in ends(graph):
            raise _illegal(self, f"no branch can lead from {self.start!r} to {self.end!r}")
        conv, norm, add = self.names(graph)
        branch = _normed(conv, norm, Conv(graph.shapes[self.end][0], (1, 1), (stride, stride)), self.start)
        if isinstance(_op(graph, self.end), Add):
            return Graph(tuple(_joined(graph.layers, self.end, branch)))
        return _inserted(graph, self.end, (*branch, Layer(add, Add(), (self.end, norm))))


KINDS: dict[str, type[Morphism]] = {kind.operation: kind for kind in (Deepen, Widen, Kernel, Skip)}


def from_json(written: dict[str, Any]) -> Morphism:
    """The morphism that `to_json` wrote."""
    rest = dict(written)
    try:
        return KINDS[rest.pop("operation")](**rest)
    except (KeyError, TypeError) as error:
        raise InputError(f"not a morphism: {written} ({error}); kinds are {', '.join(KINDS)}") from None


def ends(graph: Graph) -> Iterator[str]:
    """Layers that a branch may be added to: batch norms and sums, whose readers are ReLUs and sums."""
    for layer in graph.layers:
        if isinstance(layer.op, BatchNorm | Add) and len(graph.shapes[layer.name]) == 3:
            yield layer.name


def growing(graph: Graph) -> Iterator[str]:
    """Convolutions whose kernel may grow."""
    return (layer.name for layer in graph.layers if isinstance(layer.op, Conv) and _smaller(layer.op, KERNELS[-1]))


def starts(graph: Graph, end: str) -> list[str]:
    """Layers that a branch to `end` may begin at."""
    return [layer.name for layer in graph.layers[1:] if _stride(graph, layer.name, end) is not None]


def _smaller(op: Conv, size: int) -> bool:
    return op.kernel[0] == op.kernel[1] in KERNELS and op.kernel[0] < size


def _stride(graph: Graph, start: str, end: str) -> int | None:
    """Of a 1 x 1 convolution that makes a map as small as the end's; None if there is none, or it goes backwards."""
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


def _exchanged(graph: Graph, names: Collection[str], **sizes: Any) -> Graph:
    """Some layers with other sizes."""
    return Graph(
        tuple(replace(layer, op=replace(layer.op, **sizes)) if layer.name in names else layer for layer in graph.layers)
    )


def _inserted(graph: Graph, name: str, added: tuple[Layer, ...]) -> Graph:
    """Layers come behind another one, whose readers read the last of them instead."""
    layers: list[Layer] = []
    for layer in graph.layers:
        inputs = tuple(added[-1].name if source == name else source for source in layer.inputs)
        layers += [replace(layer, inputs=inputs), *(added if layer.name == name else ())]
    return Graph(tuple(layers))


def _joined(layers: tuple[Layer, ...], name: str, branch: tuple[Layer, ...]) -> Iterator[Layer]:
    """A branch becomes one more input of a sum."""
    for layer in layers:
        if layer.name == name:
            yield from branch
            layer = replace(layer, inputs=(*layer.inputs, branch[-1].name))
        yield layer


def _illegal(morphism: Morphism, reason: str) -> InputError:
    return InputError(f"{morphism.operation}: {reason}")
