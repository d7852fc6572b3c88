"""Torch module of a layer graph."""

from collections.abc import Callable, Container, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.nn import functional

from hpcai.models.channel_collectives import Exchanges, collective
from hpcai.models.sequence_layers import CausalAttention, GaussianLinear, RmsNorm, SharedEmbedding, gated
from hpcai.networks import sequences
from hpcai.networks.execution_plan import PlannedLayer, execution_plan
from hpcai.networks.graph import Graph
from hpcai.networks.layers import (
    Add,
    BatchNorm,
    Conv,
    Dense,
    GlobalPool,
    MaxPool,
    Op,
    Relu,
    Shape,
    Softmax,
    Upsample,
)
from hpcai.networks.regions import KINDS
from hpcai.networks.stages import Sent, Tied, received_by


class Layers(nn.Module):
    """The layers of a graph, executed in order; each layer with own parameters, and each attention, is a sub-module.

    Sub-modules have the names of their layers.

    Parameters are on the meta device, without values; `build` gives them some. `exchanges` is how its collective layers
    reach the other ranks. They compute `replicated` layers as well; the operations of `uncounted` ones count elsewhere.
    `tied`: the layers of which other stages have the weights as well.
    """

    replicated: Container[str] = ()
    uncounted: Container[str] = ()
    tied: Mapping[str, Tied] = MappingProxyType({})

    def __init__(self, graph: Graph) -> None:
        super().__init__()
        self.received = received_by(graph)
        index = {layer.name: position for position, layer in enumerate(graph.layers)}
        self.plan = [step for step in execution_plan(graph) if not isinstance(step.layer.op, Softmax)]
        self.exchanges = Exchanges()
        self.as_planned = tuple(_executable(step, index, self.exchanges) for step in self.plan)
        self.steps = list(self.as_planned)
        self._count = len(index)
        for layer in graph.layers:
            if layer.name in graph.parameters or isinstance(layer.op, sequences.CausalAttention):
                self.add_module(layer.name, submodule(layer.op, graph.shapes[layer.inputs[0]]))

    def to_empty(self, *, device: Any, recurse: bool = True) -> Self:
        """As torch's, which for tensors of the meta device loads 0.8 s of torch's compiler."""
        found: Self = self._apply(lambda each: torch.empty(each.shape, dtype=each.dtype, device=device), recurse)
        return found

    def begin(self, layers: int, *inputs: Tensor) -> None:
        """Compute the first layers only, for hooks of their modules to see."""
        self._execute(self.steps[:layers], self._values(*inputs))

    def _values(self, *inputs: Tensor) -> list[Any]:
        """The images, or what a stage receives, and a slot for the output of each layer."""
        return [*inputs] + [None] * (self._count - len(inputs))

    def _execute(self, steps: Sequence["Executable"], values: list[Any]) -> None:
        modules: dict[str, Any] = self._modules  # looked up at each call: a sub-module may have been replaced
        for name, function, sources, target, frees in steps:
            values[target] = (function or modules[name])(*[values[source] for source in sources])
            for dead in frees:
                values[dead] = None


class Network(Layers):
    """Classifier: maps float[N, C, H, W] to logits float[N, classes], symbols [N, 1, 1, S] to float[N, S, symbols].

    A final softmax is part of the loss.

    A stage of one maps what it receives to what it sends, a tuple.
    """

    def __init__(self, graph: Graph) -> None:
        for layer in graph.layers:
            if isinstance(layer.op, KINDS):
                raise TypeError(f"layer {layer.name!r} ({layer.op.kind}): a network with it is a Detector")
        super().__init__(graph)

    def forward(self, *inputs: Tensor) -> Any:
        values = self._values(*inputs)
        self._execute(self.steps, values)
        return values[self.steps[-1][3]]


def build(graph: Graph, seed: int) -> Network:
    """Module of the graph on the CPU, its parameters drawn from `seed` alone: the same on every rank.

    Convolutions: normal, He et al. (Delving Deep into Rectifiers, 2015, eq. 14: fan-out). Dense: normal with variance
    1 / inputs, since no ReLU follows, unless the layer says another. Offsets 0; scales of norms 1, also at the end of a
    residual branch.
    """
    network = Network(graph).to_empty(device="cpu")
    generator = torch.Generator().manual_seed(seed)
    for module in network.children():
        initialise(module, generator)
    return network


def initialise(module: nn.Module, generator: torch.Generator) -> None:
    """Initialise the parameters of a layer, as `build` says."""
    match module:
        case nn.BatchNorm2d():
            module.reset_parameters()
        case nn.Conv2d():
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu", generator=generator)
        case GaussianLinear():
            nn.init.normal_(module.weight, std=module.deviation, generator=generator)
        case nn.Linear():
            nn.init.normal_(module.weight, std=module.in_features**-0.5, generator=generator)
        case RmsNorm():
            nn.init.ones_(module.weight)
    if isinstance(bias := getattr(module, "bias", None), Tensor):
        nn.init.zeros_(bias)


def submodule(op: Op, source: Shape) -> nn.Module:
    """A layer with weights, or attention, on the meta device."""
    match op:
        case sequences.Embedding():
            return SharedEmbedding(op.features, op.vocabulary, op.deviation)
        case sequences.GaussianDense():
            return GaussianLinear(source[-1], op.features, op.deviation)
        case sequences.RmsNorm():
            return RmsNorm(source[-1])
        case sequences.CausalAttention():
            return CausalAttention()
        case Conv():
            window = (op.kernel, op.stride, op.padding, op.dilation)
            return nn.Conv2d(source[0], op.channels, *window, op.groups, op.bias, device="meta")
        case BatchNorm():
            return nn.BatchNorm2d(source[0], device="meta")
        case Dense():
            return nn.Linear(source[-1], op.features, op.bias, device="meta")
    raise TypeError(f"no module for {op}")


Executable = tuple[str, Callable[..., Tensor] | None, list[int], int, list[int]]


def _executable(step: PlannedLayer, index: dict[str, int], exchanges: Exchanges) -> Executable:
    """Name of the sub-module or a function, positions of inputs, output, and freed values."""
    layer = step.layer
    inputs = sorted(layer.inputs, key=lambda name: name != step.overwrites)  # the overwritten input comes first
    function = collective(layer.op, exchanges) or _function(layer.op, step.overwrites is not None)
    module = layer.lender
    return module, function, [index[n] for n in inputs], index[layer.name], [index[n] for n in step.frees]


def _function(op: Op, in_place: bool) -> Callable[..., Tensor] | None:
    match op:
        case Relu():
            return torch.relu_ if in_place else torch.relu
        case Add():
            return _accumulate if in_place else _sum
        case MaxPool():
            return partial(functional.max_pool2d, kernel_size=op.kernel, stride=op.stride, padding=op.padding)
        case GlobalPool():
            return partial(torch.mean, dim=(2, 3))
        case Upsample():
            return partial(functional.interpolate, size=op.size)
        case sequences.SwiGlu():
            return gated
        case Sent():
            return _together
    return None


def _together(*outputs: Tensor) -> Any:
    return outputs


def _accumulate(total: Tensor, *others: Tensor) -> Tensor:
    for other in others:
        total.add_(other)
    return total


def _sum(first: Tensor, second: Tensor, *others: Tensor) -> Tensor:
    return _accumulate(first + second, *others)
