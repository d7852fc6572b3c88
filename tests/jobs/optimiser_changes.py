"""Faults in the state, the numbers and the rates of optimisers: each alters one training before it begins."""

from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import torch

from hpcai.train import layerwise
from hpcai.train.loop import Training

Change = Callable[[Training], None]


def before_steps(trained: Training, change: Callable[[torch.optim.Optimizer], None]) -> None:
    """The optimiser is altered before each step."""
    trained.state.optimiser.register_step_pre_hook(lambda optimiser, *_: change(optimiser))


def options(trained: Training, **changes: Any) -> None:
    for group in trained.state.optimiser.param_groups:
        group.update(changes)


def rate_of(factor: float) -> Change:
    """The learning rate is multiplied by a factor."""

    def change(optimiser: torch.optim.Optimizer) -> None:
        for group in optimiser.param_groups:
            group["lr"] *= factor

    return lambda trained: before_steps(trained, change)


def norms_decay(trained: Training) -> None:
    """Weight decay acts on batch norm and biases as well."""
    decaying, others = trained.state.optimiser.param_groups
    others["weight_decay"] = 20 * decaying["weight_decay"]


def state_reset(name: str) -> Change:
    """A state tensor is 0 before each step: it is not kept."""

    def change(optimiser: torch.optim.Optimizer) -> None:
        for kept in optimiser.state.values():
            kept[name].zero_()

    return lambda trained: before_steps(trained, change)


def number_off(trained: Training) -> None:
    """The bias is corrected as in a later update."""

    def change(optimiser: torch.optim.Optimizer) -> None:
        for group in optimiser.param_groups:
            group["number"] = group.get("number", 0) + 1
        for kept in optimiser.state.values():
            if "step" in kept:
                kept["step"] += 1

    before_steps(trained, change)


def weights_of_a_layer_kept(trained: Training) -> None:
    """One layer is not updated, though its state is."""
    weight = max(trained.state.module.parameters(), key=lambda p: p.ndim).detach()
    kept: list[torch.Tensor] = []
    trained.state.optimiser.register_step_pre_hook(lambda *_: kept.append(weight.clone()))
    trained.state.optimiser.register_step_post_hook(lambda *_: weight.copy_(kept.pop()))


def one_ratio(trained: Training) -> None:
    """The rate is adapted to the norms of the whole model, not to those of each tensor."""
    optimiser: Any = trained.state.optimiser
    on_device, genuine = optimiser.on_device, layerwise.norms

    def of_model(tensors: list[torch.Tensor]) -> torch.Tensor:
        every = genuine(tensors)
        return torch.full_like(every, float(every.norm()))

    def on_host(group: Any, step: Any, scale: float) -> None:
        with patch.object(layerwise, "norms", of_model):
            on_device(group, step.unscaled())

    optimiser.on_host = on_host


MOMENT_FAULTS = {
    "first_moment_not_kept": state_reset("exp_avg"),
    "second_moment_not_kept": state_reset("exp_avg_sq"),
    "other_beta1": lambda t: options(t, betas=(0.8, 0.99)),
    "other_beta2": lambda t: options(t, betas=(0.9, 0.9)),
    "wrong_bias_correction": number_off,
    "decay_left_out": lambda t: options(t, weight_decay=0.0),
    "norms_decay": norms_decay,
    "rate_one_percent_too_high": rate_of(1.01),
    "a_layer_not_updated": weights_of_a_layer_kept,
}
FAULTS: dict[str, dict[str, Change]] = {
    "adam": MOMENT_FAULTS,
    "adamw": MOMENT_FAULTS,
    "adagrad": {
        "squares_not_kept": state_reset("sum"),
        "decay_left_out": lambda t: options(t, weight_decay=0.0),
        "norms_decay": norms_decay,
        "other_epsilon": lambda t: options(t, eps=0.1),
        "rate_ten_percent_too_high": rate_of(1.1),
        "a_layer_not_updated": weights_of_a_layer_kept,
    },
    "lars": {
        "velocity_not_kept": state_reset("momentum_buffer"),
        "other_momentum": lambda t: options(t, momentum=0.8),
        "other_trust": lambda t: options(t, trust=0.03),
        "trust_of_a_model": one_ratio,
        "norms_decay": norms_decay,
        "a_layer_not_updated": weights_of_a_layer_kept,
    },
    "lamb": {**MOMENT_FAULTS, "trust_of_a_model": one_ratio},
}
