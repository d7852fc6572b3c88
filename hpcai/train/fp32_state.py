"""Optimisers with state in fp32 for weights of any type, in torch's operators on lists of tensors.

A loss scaler's `grad_scale` and `found_inf` are honoured as torch's fused optimisers do, without waiting for a GPU.
"""

from abc import abstractmethod
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import torch
from torch import Tensor

Group = dict[str, Any]
Tensors = list[Tensor]


class Step(NamedTuple):
    """A step of a parameter group: weights, their gradients, and state by name, as lists of the same length.

    `overflow` is None where steps are never left out, else a tensor: 1 if this step is. The gradients are multiplied by
    `scale`, if there is one.
    """

    weights: Tensors
    gradients: Tensors
    state: dict[str, Tensors]
    scale: Tensor | None
    overflow: Tensor | None

    def unscaled(self) -> "Step":
        """The step with gradients in fp32 that nothing multiplies."""
        gradients: Iterable[Tensor] = [gradient.float() for gradient in self.gradients]
        if self.scale is not None:
            gradients = torch._foreach_div(list(gradients), self.scale)
        return self._replace(gradients=list(gradients), scale=None)

    def replace(self, old: Tensors, new: Iterable[Tensor]) -> None:
        """Copy new values into tensors, except in a step that is left out."""
        for target, value in zip(old, new, strict=True):
            target.copy_(value if self.overflow is None else torch.where(self.overflow > 0, target.float(), value))


class Fp32State(torch.optim.Optimizer):
    """Base of the optimisers: `names` are those of the state tensors of a weight."""

    names: tuple[str, ...]
    _step_supports_amp_scaling = True  # torch's mark of optimisers that apply the scale themselves

    def __init__(self, params: Iterable[Any], lr: float, weight_decay: float = 0.0, **options: Any) -> None:
        super().__init__(params, {"lr": lr, "weight_decay": weight_decay, **options})

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        """Update all weights that have a gradient."""
        scale, overflow = (getattr(self, name, None) for name in ("grad_scale", "found_inf"))
        for group in self.param_groups:
            weights = [weight for weight in group["params"] if weight.grad is not None]
            if weights:
                gradients = [weight.grad for weight in weights]
                self.update(group, Step(weights, gradients, self._state_of(weights), scale, overflow))

    def _state_of(self, weights: Tensors) -> dict[str, Tensors]:
        for weight in weights:
            if not self.state[weight]:
                self.state[weight].update({name: torch.zeros_like(weight, dtype=torch.float32) for name in self.names})
        return {name: [self.state[weight][name] for weight in weights] for name in self.names}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """As torch's, but the state stays in fp32."""
        super().load_state_dict(state_dict)
        parameters = [parameter for group in self.param_groups for parameter in group["params"]]
        for index, saved in state_dict["state"].items():
            parameter = parameters[index]
            self.state[parameter] = {name: value.to(parameter.device) for name, value in saved.items()}

    @abstractmethod
    def update(self, group: Group, step: Step) -> None:
        """Update the weights of a group."""


def numbered(group: Group, step: Step) -> Any:
    """The number of the group's update, from 1, which a step that is left out does not count; kept in the group.

    A number or a tensor, in float64: 1 - b^t of Adam loses most digits of fp32 in the first updates.
    """
    counted = 1 if step.overflow is None else 1 - step.overflow.double()
    group["number"] = group.get("number", 0) + counted
    return group["number"]


def with_moments(group: Group, step: Step) -> Tensors:
    """Update the moments; returns m^ / (sqrt(v^) + e)."""
    (first, second), (beta1, beta2), number = step.state.values(), group["betas"], numbered(group, step)
    step.replace(first, torch._foreach_lerp(first, step.gradients, 1 - beta1))
    squares = torch._foreach_mul(step.gradients, step.gradients)
    step.replace(second, torch._foreach_lerp(second, squares, 1 - beta2))
    roots = torch._foreach_sqrt(torch._foreach_div(second, 1 - beta2**number))
    torch._foreach_add_(roots, group["eps"])
    return list(torch._foreach_div(torch._foreach_div(first, 1 - beta1**number), roots))
