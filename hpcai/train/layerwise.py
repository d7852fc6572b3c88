"""LARS and LAMB: custom kernels for fp32 weights on CPUs, torch's operators elsewhere.

Where ranks have shards of the weights, one exchange a step gives the norms of the whole tensors. It is slower than
without shards: all tensors are read for their norms before the first one is updated, so that no cache holds it.
"""

from abc import abstractmethod
from collections.abc import Callable, Container, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from hpcai.kernels import layerwise
from hpcai.kernels.layerwise.numba_cpu import Squares, lamb, lamb_moments, lamb_weights, lars, square_sums
from hpcai.train.fp32_state import Fp32State, Group, Step, Tensors, numbered, with_moments

Vector = np.ndarray[Any, np.dtype[np.float32]]


class Shards(NamedTuple):
    """How a rank with shards of some weights gets numbers of the whole tensors, or of all of them together.

    total: replaces numbers by their sums over the ranks with other shards, the same bits on each. uncounted: weights
    that this rank has whole, and that count on another one.
    """

    total: Callable[[Tensor], None]
    uncounted: Container[Tensor]

    def whole(self, weights: Tensors, squares: Tensor) -> Tensor:
        """Squared norms of whole tensors, from those of what this rank has: float64[..., tensors]. Collective."""
        found = self._counted(weights, squares)
        self.total(found)
        return found

    def sum(self, weights: Tensors, squares: Tensor) -> Tensor:
        """The squared norm of all tensors of all ranks, which may have different ones. Collective."""
        found = self._counted(weights, squares).sum()
        self.total(found)
        return found

    def _counted(self, weights: Tensors, squares: Tensor) -> Tensor:
        found = squares.clone()
        for index, weight in enumerate(weights):
            if weight in self.uncounted:
                found[..., index].zero_()
        return found

    def whole_on_host(self, weights: Tensors, squares: Sequence[Squares]) -> list[Squares]:
        """The same for numbers of the host."""
        found: list[Squares] = self.whole(weights, torch.tensor(squares, dtype=torch.float64).T).T.tolist()
        return found


class Layerwise(Fp32State):
    """Optimiser with a rate for each tensor of two or more dimensions. A group's tensors have them all, or none.

    `shards`: None where a rank has all weights. Otherwise a step is collective.
    """

    shards: Shards | None = None

    def update(self, group: Group, step: Step) -> None:
        if not all(weight.device.type == "cpu" and weight.dtype == torch.float32 for weight in step.weights):
            self.on_device(group, step.unscaled())
        elif step.overflow is None or not step.overflow.numpy():
            self.on_host(group, step, 1.0 if step.scale is None else float(step.scale.numpy()))

    def sizes_and_lengths(self, step: Step, weights: Tensors, moves: Tensors) -> tuple[Tensor, Tensor]:
        """Norms of the weights of a step and of what moves them, of whole tensors if the step is adapted."""
        found = torch.stack([norms(weights), norms(moves)])
        if self.shards is not None and adapted(step):
            found = self.shards.whole(step.weights, found.double().square()).sqrt().float()
        sizes, lengths = found
        return sizes, lengths

    @abstractmethod
    def on_host(self, group: Group, step: Step, scale: float) -> None:
        """Update by custom kernels; the gradients are multiplied by `scale`."""

    @abstractmethod
    def on_device(self, group: Group, step: Step) -> None:
        """Update by torch's operators."""


class Lars(Layerwise):
    """LARS: options momentum and trust."""

    names = ("momentum_buffer",)

    def on_host(self, group: Group, step: Step, scale: float) -> None:
        trust = group["trust"] if adapted(step) else 0.0
        numbers = layerwise.Lars(group["lr"], group["weight_decay"], group["momentum"], trust, scale)
        threads = torch.get_num_threads()
        squares: Sequence[Squares | None] = [None] * len(step.weights)
        if self.shards is not None and adapted(step):
            own = [square_sums(weight, gradient, threads) for weight, gradient, _ in vectors(step)]
            squares = self.shards.whole_on_host(step.weights, own)
        for (weight, gradient, velocity), of_whole in zip(vectors(step), squares, strict=True):
            lars(weight, gradient, velocity, numbers, threads, of_whole)

    def on_device(self, group: Group, step: Step) -> None:
        (velocities,), decay = step.state.values(), group["weight_decay"]
        weights = [weight.float() for weight in step.weights]
        sizes, lengths = self.sizes_and_lengths(step, weights, step.gradients)
        rates = ratios(group["trust"] * sizes, lengths + decay * sizes, (sizes > 0) & (lengths > 0) & adapted(step))
        moves = torch._foreach_add(step.gradients, weights, alpha=decay)
        torch._foreach_mul_(moves, [*(group["lr"] * rates)])
        torch._foreach_add_(moves, torch._foreach_mul(velocities, group["momentum"]))
        step.replace(velocities, moves)
        step.replace(step.weights, torch._foreach_sub(weights, moves))


class Lamb(Layerwise):
    """LAMB: options betas and eps."""

    names = ("exp_avg", "exp_avg_sq")

    def on_host(self, group: Group, step: Step, scale: float) -> None:
        number = numbered(group, step._replace(overflow=None))
        options = (*group["betas"], group["eps"], number, adapted(step), scale)
        numbers = layerwise.Lamb(group["lr"], group["weight_decay"], *options)
        if self.shards is not None and adapted(step):
            self._of_shards(self.shards, step, numbers)
        else:
            for weight, gradient, first, second in vectors(step):
                lamb(weight, gradient, first, second, numbers, torch.get_num_threads())

    def _of_shards(self, shards: Shards, step: Step, numbers: layerwise.Lamb) -> None:
        threads = torch.get_num_threads()
        own = [lamb_moments(w, g, first, second, numbers, threads) for w, g, first, second in vectors(step)]
        squares = shards.whole_on_host(step.weights, own)
        for *tensors, of_whole in zip(step.weights, *step.state.values(), squares, strict=True):
            weight, first, second = map(flat, tensors)
            lamb_weights(weight, first, second, numbers, threads, of_whole)

    def on_device(self, group: Group, step: Step) -> None:
        weights = [weight.float() for weight in step.weights]
        moves = with_moments(group, step)
        torch._foreach_add_(moves, weights, alpha=group["weight_decay"])
        sizes, lengths = self.sizes_and_lengths(step, weights, moves)
        rates = ratios(sizes, lengths, (sizes > 0) & (lengths > 0) & adapted(step))
        torch._foreach_mul_(moves, [*(group["lr"] * rates)])
        step.replace(step.weights, torch._foreach_sub(weights, moves))


def adapted(step: Step) -> bool:
    """Whether the tensors of a step have rates of their own."""
    return step.weights[0].ndim > 1


def norms(tensors: Tensors) -> Tensor:
    """Euclidean norms of tensors, as a vector."""
    return torch.stack(torch._foreach_norm(tensors))


def ratios(size: Tensor, length: Tensor, where: Tensor) -> Tensor:
    """size / length where it is asked for, else 1."""
    return torch.where(where, size / length, torch.ones_like(size))


def vectors(step: Step) -> Iterator[tuple[Vector, ...]]:
    """Weight, gradient and state of each tensor."""
    for weight, gradient, *state in zip(step.weights, step.gradients, *step.state.values(), strict=True):
        yield (flat(weight), flat(like(gradient, weight)), *map(flat, state))


def like(gradient: Tensor, weight: Tensor) -> Tensor:
    """The gradient with its elements in the same order in memory as the weight's."""
    return gradient if gradient.stride() == weight.stride() else torch.empty_like(weight).copy_(gradient)


def flat(tensor: Tensor) -> Vector:
    """All elements of a dense tensor as a vector, in their order in memory."""
    vector: Vector = tensor.detach().as_strided((tensor.numel(),), (1,), tensor.storage_offset()).numpy()
    return vector
