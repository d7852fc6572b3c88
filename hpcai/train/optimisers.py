"""Optimisers, fused into one kernel per step where torch has one that works."""

import torch
from torch import nn

from hpcai.train.recipe import Recipe


def sgd(module: nn.Module, recipe: Recipe) -> torch.optim.Optimizer:
    """SGD with momentum; weight decay acts on convolution and dense weights, not on batch norm or biases.

    The learning rate is set before each step by hpcai.train.schedules. Momentum has the type of its parameter.
    """
    weights = [p for p in module.parameters() if p.ndim > 1]
    others = [p for p in module.parameters() if p.ndim <= 1]
    groups = [{"params": weights, "weight_decay": recipe.decay}, {"params": others, "weight_decay": 0.0}]
    short = any(p.dtype != torch.float32 and p.device.type == "cpu" for p in module.parameters())
    # torch's fused kernel for CPUs leaves most of a 16-bit parameter as it is, without a word (pytorch issue 191763).
    way = {"foreach": True} if short else {"fused": True}
    return torch.optim.SGD(groups, lr=recipe.peak_rate, momentum=recipe.momentum, **way)


def set_rate(optimiser: torch.optim.Optimizer, rate: float) -> None:
    """Use `rate` from the next step on."""
    for group in optimiser.param_groups:
        group["lr"] = rate
