"""Fused layers: batch norm with the following addition and ReLU by one custom kernel, to save memory traffic.

In evaluation mode a custom convolution before it is computed together with them, while its results are in cache.

Where there is no kernel for a type, device or number of channels, torch computes the layers one by one.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from hpcai.kernels.operators import direct, fused_evaluation, normalisation
from hpcai.kernels.spec import FORWARD
from hpcai.models.module import Executable, Layers
from hpcai.networks.execution_plan import PlannedLayer, fused_groups
from hpcai.networks.layers import BatchNorm, Relu

Custom = Callable[[tuple[int, ...]], Collection[str]]  # custom directions of a layer for images of this size


@dataclass(frozen=True)
class DeferredConvolution:
    """A deferred convolution, computed together with the layers that follow it."""

    layer: nn.Conv2d
    x: Tensor

    def normalised(self, part: nn.BatchNorm2d, relu: bool, other: Tensor | None) -> Tensor:
        """The result of the convolution and its batch norm, addition and ReLU."""
        if not fused_evaluation.fits(part, self.x, other):
            return computed(part, relu, self.layer(self.x), other)
        return fused_evaluation.convolution_normalised(self.layer, self.x, part, other, relu)


def fuse(network: Layers, names: Collection[str] | None = None, custom: Mapping[str, Custom] | None = None) -> None:
    """Fuse layers in a network's execution; results and positions of its steps stay the same.

    Fuses the batch norms with these names, or all; with the preceding convolutions that are `custom`, by name.
    """
    for place, group in normalised(network):
        if names is None or group[0].layer.name in names:
            end = place + len(group)
            network.steps[place:end] = _fuse_group(network, group, network.steps[place:end])
            _defer(network, place - 1, group[0], custom or {})


def _defer(network: Layers, place: int, norm: PlannedLayer, custom: Mapping[str, Custom]) -> None:
    """Defer a custom convolution, the step at that position, to its batch norm, if only that reads its result."""
    name, _, sources, target, frees = network.steps[place]
    if name in custom and network.plan[place].layer.name in set(norm.layer.inputs) & set(norm.frees):
        part: Any = network.get_submodule(name)
        network.steps[place] = (name, partial(deferred, part, custom[name]), sources, target, frees)


def deferred(part: nn.Conv2d, custom: Custom, x: Tensor) -> Any:
    """A custom convolution, deferred where that is possible."""
    defers = fused_evaluation.applies(part, x) and FORWARD in custom(tuple(x.shape[1:]))
    return DeferredConvolution(part, x) if defers else part(x)


def normalised(network: Layers) -> Iterator[tuple[int, tuple[PlannedLayer, ...]]]:
    """The batch norms with the layers that can be fused with them, and their positions among a network's steps."""
    place = 0
    for group in fused_groups(network.plan):
        if isinstance(group[0].layer.op, BatchNorm):
            yield place, group
        place += len(group)


def _fuse_group(network: Layers, group: tuple[PlannedLayer, ...], steps: list[Executable]) -> list[Executable]:
    """Replace all steps of a group by no-ops except the last, which computes them all."""
    name, _, (source,), _, _ = steps[0]
    inner = {target for _, _, _, target, _ in steps[:-1]}
    others = [read for _, _, sources, _, _ in steps[1:] for read in sources if read not in inner]
    frees = [dead for *_, dying in steps for dead in dying if dead not in inner]
    relu = isinstance(group[-1].layer.op, Relu)
    part: Any = network.get_submodule(name)
    function = partial(computed, part, relu)
    last = (name, function, [source, *others], steps[-1][3], frees)
    return [*((name, no_op, [], target, []) for _, _, _, target, _ in steps[:-1]), last]


def no_op() -> Any:
    """No-op of a layer that is computed with a later one."""


def computed(
    part: nn.BatchNorm2d, relu: bool, x: Tensor | DeferredConvolution, other: Tensor | None = None
) -> Tensor:
    """Batch norm, addition and ReLU by the custom kernel; running statistics as in torch."""
    if isinstance(x, DeferredConvolution):
        return x.normalised(part, relu, other)
    if not normalisation.applies(x, part.weight) or (other is not None and other.dtype != x.dtype):
        return _one_by_one(part, relu, x, other)
    if part.training:
        return _by_batch(part, relu, x, other)
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


def _by_batch(part: nn.BatchNorm2d, relu: bool, x: Tensor, other: Tensor | None) -> Tensor:
    """In training; running mean and variance move by the layer's momentum, the variance is that of a sample."""
    assert part.momentum is not None and part.running_mean is not None and part.running_var is not None
    if part.num_batches_tracked is not None:
        part.num_batches_tracked.add_(1)
    given = (x, other, part.weight, part.bias, part.eps, relu)
    if direct.applies(x, other):
        return direct.batch_norm(*given, (part.running_mean, part.running_var, part.momentum))
    y, mean, variance = torch.ops.hpcai.batch_norm(*given)
    pixels = x.numel() // x.shape[1]
    part.running_mean.lerp_(mean, part.momentum)
    part.running_var.lerp_(variance * (pixels / max(pixels - 1, 1)), part.momentum)
    made: Tensor = y
    return made
