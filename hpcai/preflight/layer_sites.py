"""The products, norms and attention of a network's training step, by layer, for timing and choosing kernels."""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from torch import Tensor, nn

from hpcai.kernels.operators import normalisation
from hpcai.models.fused_layers import normalised
from hpcai.models.joined_layers import separate
from hpcai.models.module import Layers
from hpcai.models.sequence_layers import SharedEmbedding
from hpcai.networks.execution_plan import PlannedLayer, batch_norm_site, fused_groups, sequence_site
from hpcai.preflight.layer_products import Product, seen
from hpcai.train.layer_timer import LayerTimer
from hpcai.train.providers import SEQUENCES, Size, has_custom


@dataclass(frozen=True)
class LayerSites:
    """Products by layer name and input size; norms and attention with a custom kernel by layer name, as text."""

    products: dict[tuple[str, Size], Product] = field(default_factory=dict)
    norms: dict[str, str] = field(default_factory=dict)

    def note(self, name: str, group: Sequence[PlannedLayer], part: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        """Forward hook: record a layer called in a step; with a batch norm, what is fused with it."""
        x, size = inputs[0], tuple(inputs[0].shape[1:])
        if isinstance(part, nn.Conv2d | nn.Linear):
            if not (isinstance(part, SharedEmbedding) and part.looks_up(x)):
                self.products[name, size] = seen(part, x)
        elif isinstance(part, SEQUENCES) and has_custom(part, x):
            self.norms[name] = sequence_site(group[0].layer.op, x.shape)
        elif isinstance(part, nn.BatchNorm2d) and normalisation.applies(x, part.weight):
            self.norms[name] = batch_norm_site(group, x.shape)


def survey(module: Layers, step: Callable[[], Any]) -> LayerSites:
    """The sites of a module that uses vendor kernels, in one training step."""
    found = LayerSites()
    groups = {group[0].layer.name: group for group in fused_groups(module.plan)}
    hooks = [
        part.register_forward_pre_hook(partial(found.note, name, groups.get(name, ())))
        for name, part in module.named_modules()
        if name
    ]
    step()
    for hook in hooks:
        hook.remove()
    return found


def watch(module: Layers, timer: LayerTimer) -> None:
    """Time the products of a module by (name, size), norms with what is fused and attention by name, from now on."""
    separate(module)
    for name, part in module.named_modules():
        if isinstance(part, nn.Conv2d | nn.Linear):
            part.forward = partial(timer.timed, partial(_place, name), part.forward)  # type: ignore[method-assign]
        elif isinstance(part, SEQUENCES):
            part.forward = partial(timer.timed, partial(_always, name), part.forward)  # type: ignore[method-assign]
    for place, group in normalised(module):
        for at in range(place, place + len(group)):
            name, function, sources, target, frees = module.steps[at]
            if sources:  # otherwise fused into a later step
                compute = function or module.get_submodule(name)
                timed = partial(timer.timed, partial(_always, group[0].layer.name), compute)
                module.steps[at] = name, timed, sources, target, frees


def _place(name: str, x: Tensor) -> Hashable:
    return name, tuple(x.shape[1:])


def _always(name: str, *inputs: Tensor) -> Hashable:
    return name
