"""Weight inheritance: weights with which a morphed network computes the same function as its parent.

After Chen et al., "Net2Net", 2016 (arXiv:1511.05641), and Wei et al., "Network Morphism", 2016 (arXiv:1603.01670).
"""

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from hpcai.networks.graph import Graph
from hpcai.networks.morphism import Deepen, Kernel, Morphism, Skip, Widen
from hpcai.networks.spaces import spaces
from hpcai.search.weights_file import State

Statistics = Mapping[str, tuple[Tensor, Tensor]]  # mean and variance of each channel of a layer's output

NOISE = 0.1  # largest relative difference of a copied channel's share from an equal share
EPS = nn.BatchNorm2d(1, device="meta").eps
OF_CHANNELS = ("weight", "bias", "running_mean", "running_var")


def inherit(graph: Graph, morphism: Morphism, state: State, statistics: Statistics, seed: int) -> State:
    """The child's weights: those of `graph`, the parent, that stay, and those that the morphism adds or changes.

    Tensors of `state` are not written to. Random numbers depend on `seed` alone. With `statistics` of the layer behind
    which a block is inserted, the block is the identity in training mode too, as far as a batch has these statistics;
    without them in evaluation mode only. The same on every rank that passes the same.
    """
    generator = torch.Generator().manual_seed(seed)
    match morphism:
        case Deepen():
            return state | _identity(graph, morphism, state, statistics)
        case Widen():
            return state | _widened(graph, morphism, state, generator)
        case Kernel():
            return state | _padded(graph, morphism, state)
        case Skip():
            return state | _zero_branch(graph, morphism, state, generator)
    raise TypeError(f"no weights for {morphism}")


def _identity(graph: Graph, morphism: Deepen, state: State, statistics: Statistics) -> State:
    """An identity convolution, and a batch norm whose scale and shift undo its normalisation."""
    like, channels = _like(state), graph.shapes[morphism.after][0]
    conv, norm, _ = morphism.names(graph)
    weight = like.new_zeros(channels, channels, morphism.kernel, morphism.kernel)
    nn.init.dirac_(weight)
    mean, variance = statistics.get(morphism.after, (like.new_zeros(channels), like.new_ones(channels)))
    return {f"{conv}.weight": weight, **_batch_norm(norm, (variance + EPS).sqrt(), mean, mean, variance)}


def _batch_norm(name: str, weight: Tensor, bias: Tensor, mean: Tensor, variance: Tensor) -> State:
    tensors = zip(OF_CHANNELS, (weight, bias, mean, variance), strict=True)
    return {f"{name}.{kind}": tensor.clone() for kind, tensor in tensors} | {
        f"{name}.num_batches_tracked": torch.tensor(0)
    }


def _widened(graph: Graph, morphism: Widen, state: State, generator: torch.Generator) -> State:
    """Added channels are copies of others; readers of a channel weigh it and each of its copies with a share.

    The shares of a channel add up to 1 and differ, so that training makes the copies differ.
    """
    space, before = spaces(graph)[morphism.layer], graph.shapes[morphism.layer][0]
    added = torch.randint(before, (morphism.channels - before,), generator=generator)
    origin = torch.cat([torch.arange(before), added])
    changed = {
        name: state[name][origin]
        for layer in (*space.producers, *space.preservers)
        for name in (f"{layer}.{kind}" for kind in OF_CHANNELS)
        if name in state
    }
    for layer in space.readers:
        name = f"{layer}.weight"
        weight = changed.get(name, state[name])
        share = _shares(origin, before, generator).to(weight.dtype)
        changed[name] = weight[:, origin] * share.reshape(1, -1, *[1] * (weight.dim() - 2))
    return changed


def _shares(origin: Tensor, before: int, generator: torch.Generator) -> Tensor:
    """Share of each channel in the channel that it is a copy of."""
    parts = 1 + NOISE * (2 * torch.rand(len(origin), generator=generator, dtype=torch.float64) - 1)
    return parts / torch.zeros(before, dtype=torch.float64).index_add_(0, origin, parts)[origin]


def _padded(graph: Graph, morphism: Kernel, state: State) -> State:
    """The kernel padded with zeros."""
    name = f"{morphism.layer}.weight"
    more = (morphism.size - state[name].shape[-1]) // 2
    return {name: nn.functional.pad(state[name], (more,) * 4)}


def _zero_branch(graph: Graph, morphism: Skip, state: State, generator: torch.Generator) -> State:
    """A randomly initialised convolution, and a batch norm with scale 0, so that the branch begins as zero."""
    like, channels = _like(state), graph.shapes[morphism.end][0]
    conv, norm, _ = morphism.names(graph)
    weight = torch.empty(channels, graph.shapes[morphism.start][0], 1, 1)
    nn.init.kaiming_normal_(weight, mode="fan_out", nonlinearity="relu", generator=generator)
    zeros, ones = like.new_zeros(channels), like.new_ones(channels)
    return {f"{conv}.weight": weight.to(like.dtype), **_batch_norm(norm, zeros, zeros, zeros, ones)}


def _like(state: State) -> Tensor:
    """Some floating-point weight, for its type."""
    return next(tensor for tensor in state.values() if tensor.is_floating_point())
