"""Memory traffic of a training step: bytes moved between processor and memory, counted from the layer graph.

Each layer and direction counts as one kernel that reads every operand once and writes every result once; nothing stays
in a cache between kernels. Padding, packing and repeated reads of an operand are not counted, as recomputation is not
in the counts of operations. Images are in memory, in the type of the activations, when the step begins.
"""

from dataclasses import dataclass, replace
from math import prod

from hpcai.formulas.precision import PRECISIONS
from hpcai.inputfile.split import Cut
from hpcai.networks.graph import Graph
from hpcai.networks.layers import Add, BatchNorm, Conv, Dense, GlobalPool, MaxPool, Relu, Shape, Softmax, Upsample
from hpcai.networks.regions import Detections, Proposals, RoiAlign
from hpcai.networks.sequences import CausalAttention, Embedding, RmsNorm, SwiGlu
from hpcai.opcount import walk
from hpcai.opcount.rules import ShapedLayer, model
from hpcai.opcount.stages import parts_of
from hpcai.update_rules.rule import UpdateRule
from hpcai.update_rules.sgd import Sgd

Triple = tuple[int, int, int]  # one number for each direction

FP32 = 4
INDEX = 8  # bytes of a label, and of the position of a maximum
DEFAULT_RULE = Sgd(decay=0.0, momentum=0.9)  # of networks without a recipe: one state tensor is moved


@dataclass(frozen=True, slots=True)
class LayerTraffic:
    """Operations (rule `model`) and bytes of a layer in a step of the whole batch, by direction."""

    name: str
    kind: str
    shape: Shape
    operations: Triple
    nbytes: Triple

    @property
    def intensity(self) -> tuple[float | None, float | None, float | None]:
        """FLOP per byte, by direction; None where nothing is moved."""
        pairs = [work / moved if moved else None for work, moved in zip(self.operations, self.nbytes, strict=True)]
        return pairs[0], pairs[1], pairs[2]


@dataclass(frozen=True, slots=True)
class Traffic:
    """Operations and bytes of a step of one rank: of each layer, and the bytes of the optimiser's update."""

    layers: tuple[LayerTraffic, ...]
    update: int

    @property
    def operations(self) -> int:
        return sum(sum(layer.operations) for layer in self.layers)

    @property
    def nbytes(self) -> int:
        return sum(sum(layer.nbytes) for layer in self.layers) + self.update

    @property
    def intensity(self) -> float:
        """I_mem of HPC AI500 V2: FLOP per byte of memory."""
        return self.operations / self.nbytes

    def work(self) -> dict[str, int]:
        """Operations of the step by ceiling: `convolution` and `gemm`, to which the products of attention count."""
        kinds = {"convolution": (Conv.kind,), "gemm": (Dense.kind, CausalAttention.kind)}
        return {
            name: sum(sum(layer.operations) for layer in self.layers if layer.kind in those)
            for name, those in kinds.items()
        }


@dataclass(frozen=True, slots=True)
class _Stored:
    """Samples of a step, and bytes of an element: of maps, of weights as stored and as products read them."""

    batch: int
    element: int
    weight: int
    rounded: bool = False  # forward, products read bytes that are made of maps and weights

    @property
    def copy(self) -> int:
        """Bytes of a weight to make its short copy, read long, written short; of its gradient the other way round."""
        return self.weight + self.element if self.weight != self.element else 0

    def of(self, shape: Shape) -> int:
        """Bytes of a map or vector of the whole batch."""
        return self.batch * prod(shape) * self.element


def step(
    graph: Graph, batch: int, precision: str = "fp32", rule: UpdateRule = DEFAULT_RULE, clips: bool = False
) -> Traffic:
    """What one rank moves in an optimiser step of `batch` samples under a value of PRECISION; same on every rank.

    clips: whether gradients longer than CLIP are shortened.
    """
    row = PRECISIONS[precision]
    stored = _Stored(batch, row.activation_bytes, row.weight_bytes, row.quantised)
    layers = tuple(_layer(graph, shaped, stored) for shaped in walk(graph))
    return Traffic(layers, _update(graph, stored, rule, clips))


def replica_step(
    graph: Graph, cut: Cut, chunks: int, precision: str, rule: UpdateRule, clips: bool = False
) -> Traffic:
    """What all ranks of a replica move in an optimiser step of `chunks` micro-batches; its operations count once."""
    layers: list[LayerTraffic] = []
    update = 0
    for shard in range(cut.shards):
        for part in parts_of(graph, cut, shard):
            own = step(part.graph, cut.samples, precision, rule, clips)
            elsewhere = part.replicated if shard else frozenset()
            layers += (_repeated(layer, chunks, layer.name not in elsewhere) for layer in own.layers)
            update += own.update
    return Traffic(tuple(layers), update)


def _repeated(layer: LayerTraffic, times: int, counted: bool) -> LayerTraffic:
    forward, *backward = (work * times * counted for work in layer.operations)
    moved, *others = (nbytes * times for nbytes in layer.nbytes)
    return replace(layer, operations=(forward, backward[0], backward[1]), nbytes=(moved, others[0], others[1]))


def gradient_bytes(graph: Graph, element: int) -> int:
    """Bytes of all gradients of a step on the wire, at `element` bytes each."""
    return element * sum(graph.parameters.values())


def _layer(graph: Graph, shaped: ShapedLayer, stored: _Stored) -> LayerTraffic:
    forward, backward = (stored.batch * count for count in model(shaped))
    moved = _moved(shaped, stored, graph.weights.get(shaped.layer.name, 0))
    there = shaped.layer.name in graph.trained
    gradients = (moved[1] * shaped.input_gradient, moved[2]) if there else (0, 0)
    accumulated = _accumulated(graph, shaped, stored) if there else 0
    return LayerTraffic(
        name=shaped.layer.name,
        kind=shaped.layer.op.kind,
        shape=shaped.output,
        operations=(forward, backward - forward, forward) if backward else (forward, 0, 0),
        nbytes=(moved[0], gradients[0] + accumulated, gradients[1]),
    )


def _moved(shaped: ShapedLayer, stored: _Stored, parameters: int) -> Triple:
    """Bytes forward, of the input gradient and of the weight gradient, as if there were both."""
    source, output = stored.of(shaped.source), stored.of(shaped.output)
    match shaped.layer.op:
        case Conv() | Dense():
            return _product(source, output, parameters, stored)
        case BatchNorm():
            return _normalisation(source, shaped.source[0])
        case Relu():
            return 2 * source, 3 * source, 0  # x to y; y and dy to dx
        case Add():
            return (len(shaped.layer.inputs) + 1) * output, 0, 0  # all inputs to y; dy is the gradient of every input
        case MaxPool():
            places = stored.batch * prod(shaped.output) * INDEX
            return source + output + places, output + places + source, 0  # x to y and places; dy and places to dx
        case GlobalPool() | Upsample():
            return source + output, output + source, 0  # x to y; dy to dx
        case Proposals() | RoiAlign() | Detections():
            read = sum(map(stored.of, shaped.sources))
            return read + output, output + read, 0  # all inputs to y; dy to the gradients of all inputs
        case Embedding():
            symbols = stored.batch * prod(shaped.source) * FP32
            return symbols + 2 * output, 0, symbols + output + parameters * stored.element  # rows, and their sums
        case RmsNorm():
            return 2 * source, 3 * source, 2 * source  # x to y; x and dy to dx; x and dy to the scale's
        case CausalAttention() | SwiGlu():
            return source + output, 2 * source + output, 0  # x to y; x and dy to dx
        case Softmax():
            return _loss(shaped.output, stored.batch)
    return 0, 0, 0


def _product(source: int, output: int, parameters: int, stored: _Stored) -> Triple:
    """x and w to y; dy and w to dx; x and dy to dw. Short copies of weights, long ones of gradients, bytes besides."""
    weights = parameters * stored.element
    as_bytes = 2 * (source + weights) // stored.element * stored.rounded  # written, and read
    return (
        source + weights + output + parameters * stored.copy + as_bytes,
        output + weights + source,
        source + output + weights + parameters * stored.copy,
    )


def _normalisation(source: int, channels: int) -> Triple:
    """Two passes each way, as sums over the batch come first; vectors of a number a channel are in fp32.

    Forward: x for mean and variance; x to y. Backward: x and dy for the gradients of scale and offset; x and dy to dx.
    """
    forward = FP32 * channels * 8  # scale, offset, both running statistics read; these and the batch's two written
    sums = FP32 * channels * 4  # the batch's two read, gradients of scale and offset written
    gradient = FP32 * channels * 5  # scale, the batch's two and both gradients read
    return source + 2 * source + forward, 3 * source + gradient, 2 * source + sums


def _loss(output: Shape, batch: int) -> Triple:
    """Softmax and cross-entropy in fp32: logits and labels to probabilities; these and labels to dlogits."""
    moved = batch * (2 * prod(output) * FP32 + prod(output[:-1]) * INDEX)
    return moved, moved, 0


def _accumulated(graph: Graph, shaped: ShapedLayer, stored: _Stored) -> int:
    """Bytes of accumulating the gradients from several readers: two reads and one write for each addition."""
    return 3 * max(0, graph.receivers.get(shaped.layer.name, 0) - 1) * stored.of(shaped.output)


def _update(graph: Graph, stored: _Stored, rule: UpdateRule, clips: bool) -> int:
    """Bytes of the optimiser's update; parameters of norms are kept in fp32.

    To clip, gradients are read for their norm, then read and written.
    """
    ops = {layer.name: layer.op for layer in graph.layers}
    sizes = {name: FP32 if isinstance(ops[name], BatchNorm | RmsNorm) else stored.weight for name in graph.parameters}
    clipping = {name: 3 * size * clips for name, size in sizes.items()}
    return sum(count * (rule.bytes_moved(sizes[name]) + clipping[name]) for name, count in graph.parameters.items())
