"""Builds optimisers from update rules: torch's fused one, one kernel a step, where it exists and is correct."""

from functools import cache
from importlib import import_module
from typing import Any

import torch
from torch import nn

from hpcai.update_rules.rule import UpdateRule


def build_optimiser(rule: UpdateRule, module: nn.Module, rate: float) -> torch.optim.Optimizer:
    """The rule's torch optimiser for a module, with weight decay on the parameters that the rule decays.

    The learning rate is set before each step by `set_rate`. The optimiser's state has the type of its parameter, unless
    the torch optimiser keeps another one.
    """
    decaying = [p for p in module.parameters() if rule.decays(p.ndim)]
    others = [p for p in module.parameters() if not rule.decays(p.ndim)]
    groups = [{"params": decaying, "weight_decay": rule.decay}, {"params": others, "weight_decay": 0.0}]
    short = any(p.dtype != torch.float32 and p.device.type == "cpu" for p in module.parameters())
    # torch's fused CPU kernel silently leaves most of a 16-bit parameter unchanged (pytorch issue 191763).
    implementation = {"foreach": True} if short else {"fused": True}
    first = next(module.parameters())
    smallest = min(parameter.element_size() for parameter in module.parameters())
    if rule.uses_general(first.device.type, smallest) or rule.optimiser == rule.general:
        return _class(rule.general)(groups, lr=rate, **rule.options())
    return _class(rule.optimiser)(groups, lr=rate, **rule.options(), **implementation)


@cache
def _class(name: str) -> Any:
    """The class of this name, which does not load torch's compiler; the same at each call.

    torch's optimisers load it to leave themselves out of compiled programs: 2 s of processor time of each rank and 800
    modules. Here no compiled program has an optimiser in it.
    """
    package, _, found = name.rpartition(".")
    genuine = getattr(import_module(package), found)
    for function in vars(torch.optim.Optimizer).values():
        undecorated = getattr(function, "__wrapped__", None)
        if undecorated is not None:  # `torch._disable_dynamo` keeps here what it calls
            vars(undecorated).setdefault("__dynamo_disable", undecorated)
    step = torch.no_grad()(getattr(genuine.step, "__wrapped__", genuine.step))
    return type(genuine.__name__, (genuine,), {"step": step})


def create_state(rule: UpdateRule, optimiser: torch.optim.Optimizer) -> None:
    """Create the optimiser's state as zeros, where it must exist before a first step that overflow may skip."""
    for group in optimiser.param_groups:
        for parameter in group["params"]:
            optimiser.state[parameter].update({name: torch.zeros_like(parameter) for name in rule.created_state})


def set_rate(optimiser: torch.optim.Optimizer, rate: float) -> None:
    """Set the learning rate from the next step on."""
    for group in optimiser.param_groups:
        group["lr"] = rate
