"""Faults in a network before its first step: what its layers compute, and its initial weights."""

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import torch
from planting import Fault, replaced
from torch import nn

from hpcai import networks
from hpcai.models import module as modules
from hpcai.networks.layers import Relu


def relu_left_out() -> Fault:
    """Every ReLU does nothing."""

    def make(genuine: Callable[..., Any]) -> Any:
        def function(op: Any, in_place: bool) -> Any:
            return nn.Identity() if isinstance(op, Relu) else genuine(op, in_place)

        return function

    return replaced(modules, "_function", make)


def shortcut_left_out() -> Fault:
    """Every addition gives one of its inputs; the other one's layers get gradients of zero."""

    def one_of(total: torch.Tensor, *others: torch.Tensor) -> torch.Tensor:
        return total + 0 * sum(others)

    stack = ExitStack()
    for name in ("_accumulate", "_sum"):
        stack.enter_context(replaced(modules, name, lambda genuine: one_of))
    return stack


def block_of_a_stage_twice() -> Fault:
    """The graph of every network has one more block in its last stage."""

    def make(genuine: Callable[..., Any]) -> Any:
        def resnet(architecture: Any, *arguments: Any) -> Any:
            *blocks, last = architecture.blocks
            return genuine(replace(architecture, blocks=(*blocks, last + 1)), *arguments)

        return resnet

    return replaced(networks, "resnet", make)


def _layers(kind: type[nn.Module], alter: Callable[[Any], Any]) -> Fault:
    """Layers of a kind are altered when they are made; `alter` gives the layer that is used."""

    def make(genuine: Callable[..., nn.Module]) -> Any:
        def submodule(*arguments: Any) -> nn.Module:
            made = genuine(*arguments)
            return alter(made) if isinstance(made, kind) else made

        return submodule

    return replaced(modules, "submodule", make)


def _with(name: str, value: Any) -> Callable[[Any], Any]:
    def alter(layer: Any) -> Any:
        setattr(layer, name, value)
        return layer

    return alter


def epsilon_of_batch_norm() -> Fault:
    """Batch norms add 2e-5 to the variance, not 1e-5."""
    return _layers(nn.BatchNorm2d, _with("eps", 2e-5))


def momentum_of_running_statistics() -> Fault:
    """Running statistics take 0.01 of those of a batch, not 0.1."""
    return _layers(nn.BatchNorm2d, _with("momentum", 0.01))


def head_without_bias() -> Fault:
    """The dense layer adds no offset."""
    return _layers(nn.Linear, lambda made: nn.Linear(made.in_features, made.out_features, False, device="meta"))


def borders_repeated() -> Fault:
    """Convolutions pad maps with their border, not with zeros."""

    def alter(layer: nn.Conv2d) -> nn.Conv2d:
        window = (layer.kernel_size, layer.stride, layer.padding, layer.dilation, layer.groups, False)
        return nn.Conv2d(layer.in_channels, layer.out_channels, *window, padding_mode="replicate", device="meta")  # type: ignore[arg-type]

    return _layers(nn.Conv2d, alter)


def _initial(alter: Callable[[nn.Module, torch.Generator], Any]) -> Fault:
    """Weights of every layer are altered after they were drawn."""

    def make(genuine: Callable[..., None]) -> Any:
        def initialise(module: nn.Module, generator: torch.Generator) -> None:
            genuine(module, generator)
            with torch.no_grad():
                alter(module, generator)

        return initialise

    return replaced(modules, "initialise", make)


def initial_weights_halved() -> Fault:
    """Weights of convolutions have half of their standard deviation."""
    return _initial(lambda module, _: isinstance(module, nn.Conv2d) and module.weight.mul_(0.5))


def initial_weights_uniform() -> Fault:
    """Weights of convolutions have the right mean and variance, and another distribution."""

    def alter(module: nn.Module, generator: torch.Generator) -> None:
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_uniform_(module.weight, mode="fan_out", nonlinearity="relu", generator=generator)

    return _initial(alter)


def scales_of_batch_norm_halved() -> Fault:
    """Scales of batch norms begin at 1/2."""
    return _initial(lambda module, _: isinstance(module, nn.BatchNorm2d) and module.weight.mul_(0.5))
