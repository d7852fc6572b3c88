"""LARS and LAMB: custom kernels for fp32 weights on CPUs, torch's operators elsewhere."""

from abc import abstractmethod
from typing import Any

import numpy as np
import torch
from torch import Tensor

from hpcai.kernels import layerwise
from hpcai.kernels.layerwise.numba_cpu import lamb, lars
from hpcai.train.fp32_state import Fp32State, Group, Step, Tensors, numbered, with_moments


class Layerwise(Fp32State):
    """Optimiser with a rate for each tensor of two or more dimensions. A group's tensors have them all, or none."""

    def update(self, group: Group, step: Step) -> None:
        if not all(weight.device.type == "cpu" and weight.dtype == torch.float32 for weight in step.weights):
            self.on_device(group, step.unscaled())
        elif step.overflow is None or not step.overflow.numpy():
            self.on_host(group, step, 1.0 if step.scale is None else float(step.scale.numpy()))

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
        for weight, gradient, velocity in zip(step.weights, step.gradients, *step.state.values(), strict=True):
            lars(flat(weight), flat(like(gradient, weight)), flat(velocity), numbers, torch.get_num_threads())

    def on_device(self, group: Group, step: Step) -> None:
        (velocities,), decay = step.state.values(), group["weight_decay"]
        weights = [weight.float() for weight in step.weights]
        sizes, lengths = norms(weights), norms(step.gradients)
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
        for weight, gradient, *moments in zip(step.weights, step.gradients, *step.state.values(), strict=True):
            first, second = map(flat, moments)
            lamb(flat(weight), flat(like(gradient, weight)), first, second, numbers, torch.get_num_threads())

    def on_device(self, group: Group, step: Step) -> None:
        weights = [weight.float() for weight in step.weights]
        moves = with_moments(group, step)
        torch._foreach_add_(moves, weights, alpha=group["weight_decay"])
        sizes, lengths = norms(weights), norms(moves)
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


def like(gradient: Tensor, weight: Tensor) -> Tensor:
    """The gradient with its elements in the same order in memory as the weight's."""
    return gradient if gradient.stride() == weight.stride() else torch.empty_like(weight).copy_(gradient)


def flat(tensor: Tensor) -> "np.ndarray[Any, np.dtype[np.float32]]":
    """All elements of a dense tensor as a vector, in their order in memory."""
    vector: np.ndarray[Any, np.dtype[np.float32]] = (
        tensor.detach().as_strided((tensor.numel(),), (1,), tensor.storage_offset()).numpy()
    )
    return vector
