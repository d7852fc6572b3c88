"""Random networks and morphisms of them."""

import random
from collections.abc import Iterator

import torch
from torch import Tensor

from hpcai.models.module import Network, build
from hpcai.networks import morphism
from hpcai.networks.graph import Graph, Layer
from hpcai.networks.layers import Add, BatchNorm, Conv, Dense, GlobalPool, Input, MaxPool, Relu, Softmax
from hpcai.networks.morphism import (
    KERNEL_SIZES,
    Deepen,
    Kernel,
    Morphism,
    Skip,
    Widen,
    growable_kernels,
    skip_ends,
    skip_starts,
)
from hpcai.networks.spaces import nonnegative, spaces
from hpcai.search.weight_inheritance import State, inherit

CLOSE = 1e-10  # relative, float64


def drawn(graph: Graph, kind: str, dice: random.Random) -> Morphism | None:
    """A legal morphism of a kind, or None."""
    if kind == "deepen":
        return Deepen(dice.choice([*nonnegative(graph)]), dice.choice(KERNEL_SIZES))
    if kind == "widen":
        names = [*spaces(graph)]
        layer = dice.choice(names)
        return Widen(layer, graph.shapes[layer][0] + dice.randint(1, 5))
    if kind == "kernel":
        names = [*growable_kernels(graph)]
        side = {layer.name: layer.op.kernel[0] for layer in graph.layers if isinstance(layer.op, Conv)}
        name = dice.choice(names) if names else None
        return name and Kernel(name, dice.choice([size for size in KERNEL_SIZES if size > side[name]]))
    assert kind == "skip", kind
    pairs = [(start, end) for end in skip_ends(graph) for start in skip_starts(graph, end)]
    return Skip(*dice.choice(pairs)) if pairs else None


def some_graph(dice: random.Random) -> Graph:
    """A random network: blocks with and without branches, pools and strides, in sequence."""
    layers = [Layer("image", Input((dice.randint(1, 3), dice.randint(9, 14), dice.randint(9, 14))))]
    channels = dice.randint(2, 5)

    def block(name: str, source: str, stride: int) -> str:
        kernel = dice.choice((1, 3, 5))
        conv = Conv(channels, (kernel, kernel), (stride, stride), (kernel // 2, kernel // 2), bias=dice.random() < 0.3)
        layers.append(Layer(f"{name}_conv", conv, (source,)))
        layers.append(Layer(f"{name}_norm", BatchNorm(), (f"{name}_conv",)))
        return f"{name}_norm"

    last = "image"
    for number in range(dice.randint(2, 5)):
        stride = dice.choice((1, 1, 2))
        channels = channels if dice.random() < 0.6 else channels + dice.randint(1, 3)
        out = block(f"b{number}", last, stride)
        if dice.random() < 0.5:
            other = block(f"s{number}", last, stride)
            layers.append(Layer(f"b{number}_add", Add(), (out, other)))
            out = f"b{number}_add"
        layers.append(Layer(f"b{number}_relu", Relu(), (out,)))
        last = f"b{number}_relu"
        if dice.random() < 0.3:
            layers.append(Layer(f"b{number}_pool", MaxPool((2, 2), (1, 1), (1, 1)), (last,)))
            last = f"b{number}_pool"
    layers += [Layer("pool", GlobalPool(), (last,)), Layer("dense", Dense(7), ("pool",))]
    return Graph((*layers, Layer("softmax", Softmax(), ("dense",))))


def trained_a_little(graph: Graph, seed: int) -> State:
    """Weights with batch-norm statistics that are not the initial ones: every value is drawn."""
    generator = torch.Generator().manual_seed(seed)
    state = build(graph, seed).double().state_dict()
    for name, tensor in state.items():
        if name.endswith(("running_var", "norm.weight")):
            tensor.copy_(0.5 + torch.rand(tensor.shape, generator=generator))
        elif tensor.dim() == 1:
            tensor.copy_(torch.randn(tensor.shape, generator=generator))
    return state


def output(graph: Graph, state: State, x: Tensor, training: bool = False) -> Tensor:
    network = Network(graph).to_empty(device="cpu").double()
    network.load_state_dict(state)
    return network.train(training)(x)


def random_images(graph: Graph, count: int = 3, seed: int = 1) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(count, *graph.shapes["image"], dtype=torch.float64, generator=generator)


def deviation(one: Tensor, other: Tensor) -> float:
    return float(((one - other).abs().max() / other.abs().max()).detach())


def chain(seed: int, length: int) -> Iterator[tuple[Morphism, Graph, State, Graph, State]]:
    """Morphisms in sequence: each with the parent and the child."""
    dice = random.Random(seed)
    graph = some_graph(dice)
    state = trained_a_little(graph, seed)
    for step in range(length):
        change = drawn(graph, dice.choice([*morphism.KINDS]), dice)
        if change is not None:
            child = change.apply(graph)
            weights = inherit(graph, change, state, {}, seed + step)
            yield change, graph, state, child, weights
            graph, state = child, weights
