"""Where a network computes what is chosen: its products and its batch norms, as a step of training calls them."""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from torch import Tensor, nn

from hpcai.kernels.operators import normalising
from hpcai.models.fused_layers import normalised
from hpcai.models.module import Layers
from hpcai.networks.execution_plan import PlannedLayer, batch_norm_site
from hpcai.preflight.layer_products import Product, seen
from hpcai.train.layer_timer import Laps
from hpcai.train.providers import Size


@dataclass(frozen=True)
class Places:
    """Products by the layer's name and its input, and batch norms, of which there is a kernel of ours, in words."""

    products: dict[tuple[str, Size], Product] = field(default_factory=dict)
    norms: dict[str, str] = field(default_factory=dict)

    def note(self, name: str, group: Sequence[PlannedLayer], part: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        """A layer is called in a step; with a batch norm, what is computed with it."""
        x, size = inputs[0], tuple(inputs[0].shape[1:])
        if isinstance(part, nn.Conv2d | nn.Linear):
            self.products[name, size] = seen(part, x)
        elif isinstance(part, nn.BatchNorm2d) and normalising.applies(x, part.weight):
            self.norms[name] = batch_norm_site(group, x.shape)


def survey(module: Layers, step: Callable[[], Any]) -> Places:
    """The places of a module that computes as the vendor does, in a step of its training."""
    found = Places()
    groups = {group[0].layer.name: group for _, group in normalised(module)}
    hooks = [
        part.register_forward_pre_hook(partial(found.note, name, groups.get(name, ())))
        for name, part in module.named_modules()
        if name
    ]
    step()
    for hook in hooks:
        hook.remove()
    return found


def watch(module: Layers, laps: Laps) -> None:
    """From now on have the products of a module timed by (name, size), and batch norms with what follows by name."""
    for name, part in module.named_modules():
        if isinstance(part, nn.Conv2d | nn.Linear):
            part.forward = partial(laps.timed, partial(_place, name), part.forward)  # type: ignore[method-assign]
    for place, group in normalised(module):
        for at in range(place, place + len(group)):
            name, function, sources, target, frees = module.steps[at]
            if sources:  # else it is computed with a later one
                compute = function or module.get_submodule(name)
                timed = partial(laps.timed, partial(_always, group[0].layer.name), compute)
                module.steps[at] = name, timed, sources, target, frees


def _place(name: str, x: Tensor) -> Hashable:
    return name, tuple(x.shape[1:])


def _always(name: str, *inputs: Tensor) -> Hashable:
    return name
