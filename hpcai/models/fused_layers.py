"""Batch norm computed by our kernels together with the sum and the ReLU that follow it: less memory is moved.

In evaluation a convolution of ours before it waits for it, and all are computed at once, while results are near.

Where there is no kernel, for a type, a device or a number of channels, torch computes one after the other.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from hpcai.kernels.operators import direct, evaluating, normalising
from hpcai.models.module import Executable, Layers
from hpcai.networks.execution_plan import PlannedLayer, fused_groups
from hpcai.networks.layers import BatchNorm, Relu


@dataclass(frozen=True)
class Later:
    """What a convolution will make of pictures: with what follows it, which is computed while the results are near."""

    layer: nn.Conv2d
    x: Tensor

    def normalised(self, part: nn.BatchNorm2d, relu: bool, other: Tensor | None) -> Tensor:
        """What batch norm, the sum and the ReLU make of it."""
        if not evaluating.fits(part, self.x, other):
            return _normalised(part, relu, self.layer(self.x), other)
        return evaluating.convolution_normalised(self.layer, self.x, part, other, relu)


def fuse(
    network: Layers, names: Collection[str] | None = None, ours: Mapping[str, Callable[[Tensor], bool]] | None = None
) -> None:
    """Change how a network is executed, not what it computes; its steps keep their places.

    Of the batch norms with these names, or of all; with the convolutions before them that are `ours`: by their names,
    whether they are of these pictures.
    """
    for place, group in normalised(network):
        if names is None or group[0].layer.name in names:
            end = place + len(group)
            network.steps[place:end] = _at_once(network, group, network.steps[place:end])
            _put_off(network, place - 1, group[0], ours or {})


def _put_off(network: Layers, place: int, norm: PlannedLayer, ours: Mapping[str, Callable[[Tensor], bool]]) -> None:
    """Have a convolution of ours, the step at that place, wait for the batch norm, if only that reads its results."""
    name, _, sources, target, frees = network.steps[place]
    if name in ours and network.plan[place].layer.name in set(norm.layer.inputs) & set(norm.frees):
        part: Any = network.get_submodule(name)
        network.steps[place] = (name, partial(_convolved, part, ours[name]), sources, target, frees)


def _convolved(part: nn.Conv2d, ours: Callable[[Tensor], bool], x: Tensor) -> Any:
    return Later(part, x) if evaluating.applies(part, x) and ours(x) else part(x)


def normalised(network: Layers) -> Iterator[tuple[int, tuple[PlannedLayer, ...]]]:
    """The batch norms with what can be computed at once with them, and their places among a network's steps."""
    place = 0
    for group in fused_groups(network.plan):
        if isinstance(group[0].layer.op, BatchNorm):
            yield place, group
        place += len(group)


def _at_once(network: Layers, group: tuple[PlannedLayer, ...], steps: list[Executable]) -> list[Executable]:
    """Nothing in place of all steps of a group but the last, which computes them all."""
    name, _, (source,), _, _ = steps[0]
    inner = {target for _, _, _, target, _ in steps[:-1]}
    others = [read for _, _, sources, _, _ in steps[1:] for read in sources if read not in inner]
    frees = [dead for *_, dying in steps for dead in dying if dead not in inner]
    relu = isinstance(group[-1].layer.op, Relu)
    part: Any = network.get_submodule(name)
    function = partial(_normalised, part, relu)
    last = (name, function, [source, *others], steps[-1][3], frees)
    return [*((name, _nothing, [], target, []) for _, _, _, target, _ in steps[:-1]), last]


def _nothing() -> Any:
    """What is computed with what follows."""


def _normalised(part: nn.BatchNorm2d, relu: bool, x: Tensor | Later, other: Tensor | None = None) -> Tensor:
    """What batch norm, the sum and the ReLU make; running statistics as torch keeps them."""
    if isinstance(x, Later):
        return x.normalised(part, relu, other)
    if not normalising.applies(x, part.weight) or (other is not None and other.dtype != x.dtype):
        return _one_by_one(part, relu, x, other)
    if part.training:
        compute = direct.batch_norm if direct.applies(x, other) else torch.ops.hpcai.batch_norm
        y, mean, variance = compute(x, other, part.weight, part.bias, part.eps, relu)
        _keep_moments(part, mean, variance, x.numel() // x.shape[1])
        made: Tensor = y
        return made
    if torch.is_grad_enabled():
        return _one_by_one(part, relu, x, other)
    known = (part.weight, part.bias, part.running_mean, part.running_var, part.eps)
    made = torch.ops.hpcai.batch_norm_known(x, other, *known, relu)
    return made


def _one_by_one(part: nn.BatchNorm2d, relu: bool, x: Tensor, other: Tensor | None) -> Tensor:
    y: Tensor = part(x)
    if other is not None:
        y = y.add_(other)
    return torch.relu_(y) if relu else y


def _keep_moments(part: nn.BatchNorm2d, mean: Tensor, variance: Tensor, pixels: int) -> None:
    """Running mean and variance move towards these by the layer's momentum; the variance as that of a sample."""
    assert part.momentum is not None and part.running_mean is not None and part.running_var is not None
    part.running_mean.lerp_(mean, part.momentum)
    part.running_var.lerp_(variance * (pixels / max(pixels - 1, 1)), part.momentum)
    if part.num_batches_tracked is not None:
        part.num_batches_tracked.add_(1)
