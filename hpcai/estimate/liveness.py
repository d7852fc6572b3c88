"""Memory of a training step by tensor lifetimes: the planned forward pass and autograd's backward pass."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from math import prod

from hpcai.networks.collective_layers import COLLECTIVE, AllReduce, Divide
from hpcai.networks.execution_plan import execution_plan
from hpcai.networks.graph import Graph, Layer
from hpcai.networks.layers import (
    Add,
    BatchNorm,
    Conv,
    Dense,
    GlobalPool,
    Input,
    MaxPool,
    Op,
    Relu,
    Softmax,
    Upsample,
)
from hpcai.networks.regions import Detections
from hpcai.networks.sequences import CausalAttention, RmsNorm, SwiGlu
from hpcai.networks.stages import Sent

INDEX_BYTES = 8  # torch keeps labels and the positions of pooled maxima as int64
FP32_BYTES = 4
MATCHING_BYTES = 400  # bytes for an anchor: its overlaps with 15 boxes, a few copies, and its box


@dataclass(frozen=True)
class Storage:
    """Bytes of an element of activations and of parameters; `converted`: convolutions keep an fp32 copy of their input.

    `gradients`: a step makes its parameters' gradients anew; else they lie in buckets that stay. `rounded`: products
    make bytes of their input forward, and an fp32 copy of it, rounded, backward. `widened`: attention and dense
    layers are computed in fp32, from and to 16 bits.
    """

    activation: int = 4
    parameter: int = 4
    converted: bool = False
    gradients: bool = True
    rounded: bool = False
    widened: bool = False


def running_statistics(graph: Graph) -> int:
    """Number of running means and variances of batch norm."""
    return sum(2 * graph.shapes[layer.name][0] for layer in graph.layers if isinstance(layer.op, BatchNorm))


def saved_bytes(graph: Graph, batch: int, storage: Storage) -> int:
    """Bytes saved for the backward pass after a forward pass of `batch` images, without images and parameters."""
    return sum(_Saved(graph, batch, storage).sizes.values())


@lru_cache
def step_bytes(graph: Graph, batch: int, storage: Storage) -> int:
    """Peak bytes of a step: activations, gradients and scratch memory of layers, without images, weights and optimiser.

    Images, weights and optimiser are not in it.
    """
    return max(max(_forward(graph, batch, storage)), max(_backward(graph, batch, storage)))


class _Saved:
    """Tensors saved for the backward pass, and the layer that uses each last in it."""

    def __init__(self, graph: Graph, batch: int, storage: Storage) -> None:
        self.memory_of = _memory_of(graph)
        self.sizes: dict[str, int] = {}
        self.needed_by: dict[str, str] = {}
        for layer in graph.computed:
            if layer.name in graph.trained:
                for name, nbytes in self._of(graph, batch, storage, layer):
                    self.sizes.setdefault(name, nbytes)
                    self.needed_by.setdefault(name, layer.name)  # the first layer forward is the last backward

    def _of(self, graph: Graph, batch: int, storage: Storage, layer: Layer) -> Iterator[tuple[str, int]]:
        image = graph.layers[0].name if isinstance(graph.layers[0].op, Input) else ""
        source = layer.name if isinstance(layer.op, Relu | Softmax) else layer.inputs[0]
        if not isinstance(layer.op, Add | Detections | GlobalPool | Upsample | Sent | COLLECTIVE):
            root = self.memory_of[source]
            if root != image or storage.activation < FP32_BYTES:
                yield root, batch * prod(graph.shapes[root]) * storage.activation
        if isinstance(layer.op, MaxPool):
            yield f"{layer.name} positions", batch * prod(graph.shapes[layer.name]) * INDEX_BYTES
        if isinstance(layer.op, RmsNorm | CausalAttention | SwiGlu):
            yield f"{layer.name} inside", _inside(graph, batch, storage, layer)
        if isinstance(layer.op, BatchNorm):
            yield f"{layer.name} statistics", 2 * graph.shapes[layer.name][0] * FP32_BYTES
        if isinstance(layer.op, Conv) and storage.converted:
            yield f"{layer.name} input", batch * prod(graph.shapes[source]) * FP32_BYTES
        if isinstance(layer.op, Conv | Dense) and storage.activation < storage.parameter:
            yield f"{layer.name} weights", graph.weights[layer.name] * storage.activation


def _inside(graph: Graph, batch: int, storage: Storage, layer: Layer) -> int:
    """Bytes that a layer of sequences saves besides its input.

    Norms: rows in fp32, normalised and not. Attention: rotated queries and keys, and their halves before that; widened:
    its input, rotated queries and keys, and its output, in fp32 instead. SwiGLU: the first half's silu.
    """
    rows = batch * prod(graph.shapes[layer.name])
    match layer.op:
        case RmsNorm():
            return 2 * rows * FP32_BYTES
        case CausalAttention():
            return 6 * rows * FP32_BYTES if storage.widened else 4 * rows * storage.activation
    return rows * storage.activation


def _memory_of(graph: Graph) -> dict[str, str]:
    """For each layer, the layer that owns the memory of its output: itself, or the one whose output it overwrites."""
    memory_of = {layer.name: layer.name for layer in graph.inputs}
    for step in execution_plan(graph):
        memory_of[step.layer.name] = memory_of[step.overwrites] if step.overwrites else step.layer.name
    return memory_of


def _forward(graph: Graph, batch: int, storage: Storage) -> Iterator[int]:
    """Live bytes while each layer runs forward, in order."""
    saved = _Saved(graph, batch, storage)
    living: dict[str, int] = {}
    for step in execution_plan(graph):
        root, name = saved.memory_of[step.layer.name], step.layer.name
        living.setdefault(root, batch * prod(graph.shapes[root]) * storage.activation)
        living |= {key: saved.sizes[key] for key, last in saved.needed_by.items() if last == name}
        yield sum(living.values()) + _scratch(graph, step.layer, batch, storage)
        for freed in {saved.memory_of[dead] for dead in step.frees} - {root}:
            if freed not in saved.sizes:
                living.pop(freed, None)


def _scratch(graph: Graph, layer: Layer, batch: int, storage: Storage) -> int:
    """Scratch bytes of a layer, needed only while it runs."""
    if isinstance(layer.op, Detections):
        scores = layer.inputs[2 : 1 + len(layer.inputs) // 2]
        return MATCHING_BYTES * batch * sum(prod(graph.shapes[name]) for name in scores)
    if not isinstance(layer.op, Conv | Dense):
        return 0
    source = batch * prod(graph.shapes[layer.inputs[0]])
    copied = (source + graph.weights[layer.name]) * (FP32_BYTES + 1) * storage.rounded
    if isinstance(layer.op, Dense):
        result = batch * prod(graph.shapes[layer.name])
        return copied + (source + graph.weights[layer.name] + result) * FP32_BYTES * storage.widened
    weights = graph.weights[layer.name] * storage.parameter
    output = batch * prod(graph.shapes[layer.name]) * FP32_BYTES
    return weights * (2 if storage.converted else 1) + output * storage.converted + copied


@dataclass
class _Gradients:
    """Gradients of outputs in the backward pass; those that an addition passes on share one memory."""

    bytes_of: dict[int, int] = field(default_factory=dict)
    holders: dict[int, int] = field(default_factory=dict)
    of: dict[str, int] = field(default_factory=dict)
    made: int = 0

    @property
    def total(self) -> int:
        return sum(self.bytes_of.values())

    def make(self, nbytes: int) -> int:
        self.made += 1
        self.bytes_of[self.made], self.holders[self.made] = nbytes, 0
        return self.made

    def give(self, layer: str, gradient: int) -> int:
        """Add to a layer's gradient; returns the temporary bytes of the sum."""
        self.holders[gradient] += 1
        before = self.of.get(layer)
        if before is None:
            self.of[layer] = gradient
            return 0
        nbytes = self.bytes_of[gradient]
        self.of[layer] = self.make(nbytes)
        self.holders[self.of[layer]] = 1
        self.drop(before)
        self.drop(gradient)
        return nbytes

    def drop(self, gradient: int) -> None:
        self.holders[gradient] -= 1
        if not self.holders[gradient]:
            del self.bytes_of[gradient], self.holders[gradient]


def _backward(graph: Graph, batch: int, storage: Storage) -> Iterator[int]:
    """Live bytes while the gradient of each layer is computed, from the last to the first."""
    saved, gradients, weights = _Saved(graph, batch, storage), _Gradients(), 0
    kept = dict(saved.sizes)
    for name in _ends(graph):
        gradients.give(name, gradients.make(batch * prod(graph.shapes[name]) * storage.activation))
    for layer in reversed(graph.computed):
        if layer.name not in graph.trained or isinstance(layer.op, Sent):
            continue
        own = graph.parameters.get(layer.name, 0) * storage.parameter
        handed, extra = _propagate(graph, layer, batch, storage, gradients)
        weights += own
        living = sum(kept.values()) + gradients.total + (weights if storage.gradients else own)
        turned = own if isinstance(layer.op, Conv) else 0  # the weights' gradient, converted to their layout
        yield living + extra + turned + _scratch(graph, layer, batch, storage)
        for gradient in handed:
            gradients.drop(gradient)
        for key in [key for key, name in saved.needed_by.items() if name == layer.name]:
            del kept[key]


def _ends(graph: Graph) -> tuple[str, ...]:
    """The outputs whose gradients are given."""
    last = graph.layers[-1]
    return last.inputs if isinstance(last.op, Sent) else (last.name,)


def _propagate(
    graph: Graph, layer: Layer, batch: int, storage: Storage, gradients: _Gradients
) -> tuple[list[int], int]:
    """Pass gradients to the layer's inputs; returns the gradients no longer needed, and temporary bytes."""
    own_gradient = gradients.of.pop(layer.name)
    receivers = [name for name in layer.inputs if name in graph.trained]
    extra = _temporary(layer.op, batch * prod(graph.shapes[layer.inputs[0]]) * storage.activation)
    for name in receivers:
        shared = isinstance(layer.op, Add | Softmax | AllReduce | Divide)
        gradient = own_gradient if shared else gradients.make(batch * prod(graph.shapes[name]) * storage.activation)
        extra = max(extra, gradients.give(name, gradient))
    return [own_gradient], extra


def _temporary(op: Op, nbytes: int) -> int:
    """Temporary bytes: batch norm copies a gradient before it computes its own."""
    return nbytes if isinstance(op, BatchNorm) else 0
