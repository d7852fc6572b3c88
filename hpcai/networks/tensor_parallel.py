"""Tensor parallelism: a rank's part of a network whose channels are divided among ranks.

Activations are sharded by channel. A convolution or dense layer holds the weights of its output channels and reads the
whole input, gathered; or those of its input channels, and the partial sums of all outputs are summed and scattered: the
choice that moves fewer bytes (Shoeybi et al., Megatron-LM, 2019, section 3, has the two in pairs). Batch norm, ReLU,
pooling and addition need no other rank. A layer with fewer channels than ranks, and every kind of layer without such a
division, is replicated: all ranks compute it whole. The layers are the same on every rank, but for its own channels.

Of tables, the rows between the blocks of a decoder, all ranks have all columns. A dense layer that attention or gated
units read is divided by whole heads or units, the dense layer after them by its inputs: one all-reduce forward, of the
partial sums, and one backward, of the gradient of what the first one reads.
"""

from collections.abc import Container
from dataclasses import dataclass, replace
from math import prod
from typing import Literal

from hpcai.networks.collective_layers import AllGather, AllReduce, Divide, ReduceScatter, channels_of
from hpcai.networks.graph import Graph, Layer
from hpcai.networks.layers import Add, BatchNorm, Conv, Dense, GlobalPool, MaxPool, Op, Received, Relu, Upsample
from hpcai.networks.sequences import BY_SECTION
from hpcai.networks.stages import Sent

BY_CHANNEL = (BatchNorm, Relu, MaxPool, GlobalPool, Upsample, Add)  # each output channel needs its input channel only
GATHERED = "gathered"
SIMD_CHANNELS = 8


@dataclass(frozen=True, slots=True)
class Divided:
    """Which weights a rank has: those of its output channels, its input channels, or its channels.

    These are of each of so many equal sections, in units of so many neighbours.
    """

    by: Literal["outputs", "inputs", "channels"]
    sections: int = 1
    unit: int = 1

    def own(self, rank: int, ranks: int, channels: int) -> tuple[int, int]:
        """First channel of a rank in a section, and that after its last one; channels: of all sections."""
        first, end = channels_of(rank, ranks, channels // (self.sections * self.unit))
        return first * self.unit, end * self.unit


BY_INPUTS, BY_OUTPUTS = Divided("inputs"), Divided("outputs")


@dataclass(frozen=True)
class TensorPart:
    """A rank's part of a network.

    divided: by layer with weights, which of them the rank has; of a layer that is not in it, all. replicated: what all
    ranks compute whole. sharded: layers of which each rank has its own output channels.
    """

    graph: Graph
    rank: int
    ranks: int
    divided: dict[str, Divided]
    replicated: frozenset[str]
    sharded: frozenset[str]


def tensor_part(graph: Graph, rank: int, ranks: int, sharded: Container[str] = ()) -> TensorPart:
    """The part of a rank; the whole network of one rank.

    sharded: of a stage of a pipeline, the layers of earlier stages whose outputs are sharded.
    """
    divider = _Divider(graph, rank, ranks, sharded)
    for layer in graph.layers:
        divider.add(layer)
    local = Graph(tuple(divider.layers))
    return TensorPart(
        local, rank, ranks, divider.divided, frozenset(divider.replicated), frozenset(divider.sharded)
    )


class _Divider:
    """Makes a rank's layers, with the collective ones between them."""

    def __init__(self, graph: Graph, rank: int, ranks: int, received: Container[str]) -> None:
        """received: layers of earlier stages whose outputs are sharded."""
        self.layers: list[Layer] = []
        self.divided: dict[str, Divided] = {}
        self.replicated: set[str] = set()
        self.sharded: set[str] = set()
        self._graph, self._rank, self._ranks = graph, rank, ranks
        self._received = received
        self._output: dict[str, str] = {}  # of a layer of the whole network: the layer of the part that has its output
        self._by_section = {layer.name: layer.op for layer in graph.layers if isinstance(layer.op, BY_SECTION)}
        self._readers = {graph.layers[graph.places[name]].inputs[0]: op for name, op in self._by_section.items()}
        self._made: dict[tuple[str, str], str] = {}  # collective layers by source and suffix

    def add(self, layer: Layer) -> None:
        """Add a layer of the whole network."""
        self._output[layer.name] = layer.name
        if isinstance(layer.op, Conv | Dense) and not layer.shares and self._ranks > 1:
            product = self._product_of_table if len(self._graph.shapes[layer.name]) == 2 else self._product
            product(layer, layer.op)
        elif isinstance(layer.op, Received) and layer.name in self._received:
            self._own_channels(replace(layer, op=self._shard(layer.op)))
        elif isinstance(layer.op, Sent):
            self._append(layer, layer.op, self._local(layer.inputs))
        elif isinstance(layer.op, (*BY_CHANNEL, BY_SECTION)) and self.sharded.issuperset(layer.inputs):
            self._own_channels(layer)
        else:
            self._whole(layer)

    def _product(self, layer: Layer, op: Conv | Dense) -> None:
        many, divisible = self._channels(layer.name) >= self._ranks, not (isinstance(op, Conv) and op.groups > 1)
        by_inputs = layer.inputs[0] in self.sharded and divisible and not op.bias and not self._is_damaging(layer)
        if by_inputs and (not many or self._scattering_is_cheaper(layer)):
            self._by_inputs(layer, many)
        elif many and divisible:
            self._by_outputs(layer, op)
        else:
            self._whole(layer)

    def _product_of_table(self, layer: Layer, op: Conv | Dense) -> None:
        """Divided by the heads or units of its reader, or of what it reads."""
        (source,), reader = layer.inputs, self._readers.get(layer.name)
        if source in self.sharded:
            self._by_inputs(layer, False, Divided("inputs", unit=self._by_section[source].unit))
        elif reader and self._channels(layer.name) >= self._ranks * reader.sections * reader.unit:
            self._by_outputs(layer, op, Divided("outputs", reader.sections, reader.unit))
        else:
            self._whole(layer)

    def _is_damaging(self, layer: Layer) -> bool:
        """Whether oneDNN would write beyond the weights' gradient of a shard.

        It does for a strided 1x1 convolution of fewer than 8 input channels, channels last, on AVX2 (torch 2.13).
        """
        op, least = layer.op, self._channels(layer.inputs[0]) // self._ranks
        return isinstance(op, Conv) and op.kernel == (1, 1) and op.stride != (1, 1) and least < SIMD_CHANNELS

    def _scattering_is_cheaper(self, layer: Layer) -> bool:
        """Whether the output has no more values than the input, unless that is gathered already."""
        (source,) = layer.inputs
        gathered = (source, GATHERED) in self._made
        return not gathered and prod(self._graph.shapes[layer.name]) <= prod(self._graph.shapes[source])

    def _by_inputs(self, layer: Layer, scattered: bool, divided: Divided = BY_INPUTS) -> None:
        channels = self._channels(layer.name)
        joined: Op = ReduceScatter(channels, self._rank, self._ranks) if scattered else AllReduce(self._ranks)
        self._append(layer, layer.op, self._local(layer.inputs))
        self.divided[layer.name] = divided
        self._output[layer.name] = self._collective(layer.name, "sum", joined)
        if scattered:
            self.sharded.add(layer.name)

    def _by_outputs(self, layer: Layer, op: Conv | Dense, divided: Divided = BY_OUTPUTS) -> None:
        first, end = divided.own(self._rank, self._ranks, self._channels(layer.name))
        many = divided.sections * (end - first)
        own: Op = replace(op, channels=many) if isinstance(op, Conv) else replace(op, features=many)
        self._append(layer, own, (self._for_divided(layer.inputs[0]),))
        self.divided[layer.name] = divided
        self.sharded.add(layer.name)

    def _own_channels(self, layer: Layer) -> None:
        self._append(layer, layer.op, self._local(layer.inputs))
        if layer.name in self._graph.parameters:
            self.divided[layer.name] = Divided("channels")
        self.sharded.add(layer.name)

    def _shard(self, op: Received) -> Received:
        first, end = channels_of(self._rank, self._ranks, op.size[0])
        return replace(op, size=(end - first, *op.size[1:]))

    def _whole(self, layer: Layer) -> None:
        self._append(layer, layer.op, tuple(map(self._for_replicated, layer.inputs)))
        self.replicated.add(layer.name)

    def _for_divided(self, source: str) -> str:
        """The whole output of a layer, whose gradient is a partial sum."""
        if source in self.sharded:
            return self._collective(source, GATHERED, self._gather(source, divided=True))
        if source in self._graph.trained:
            return self._collective(source, "divided", Divide(self._ranks))
        return self._output[source]

    def _for_replicated(self, source: str) -> str:
        """The whole output of a layer, whose gradient is whole as well."""
        if source not in self.sharded:
            return self._output[source]
        return self._collective(source, "whole", self._gather(source, divided=False))

    def _gather(self, source: str, *, divided: bool) -> AllGather:
        return AllGather(self._channels(source), self._rank, self._ranks, divided)

    def _collective(self, source: str, suffix: str, op: Op) -> str:
        """A collective layer that reads an output, made where it is first needed; its name."""
        if (source, suffix) not in self._made:
            self._made[source, suffix] = f"{source}_{suffix}"
            self.layers.append(Layer(f"{source}_{suffix}", op, (self._output[source],)))
        return self._made[source, suffix]

    def _append(self, layer: Layer, op: Op, inputs: tuple[str, ...]) -> None:
        self.layers.append(replace(layer, op=op, inputs=inputs))

    def _local(self, names: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(self._output[name] for name in names)

    def _channels(self, name: str) -> int:
        shape = self._graph.shapes[name]
        return shape[1] if len(shape) == 2 else shape[0]
