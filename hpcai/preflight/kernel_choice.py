"""KERNELS auto: times each layer by custom and vendor kernels within training steps, and chooses the faster ones.

So memory layout and caches are those of the training; all ranks compute at the same time with all their threads;
gradients that share operands are timed together. Steps with the different sets of kernels alternate.
"""

from collections import Counter
from collections.abc import Collection, Mapping
from copy import deepcopy
from dataclasses import dataclass
from math import inf
from typing import Any, cast

import numpy as np
import torch
from mpi4py import MPI
from msgspec import structs

from hpcai.kernels.layers import spec_of
from hpcai.kernels.providers import CUSTOM, VENDOR
from hpcai.kernels.spec import DIRECTIONS, FORWARD
from hpcai.models.fused_layers import normalised
from hpcai.models.module import Layers
from hpcai.preflight.layer_products import Product
from hpcai.preflight.layer_sites import LayerSites, survey, watch
from hpcai.preflight.timed_steps import TimedSteps
from hpcai.record.preflight import Backward, Forward, Kernel, KernelChoice, TimedNormalisation, TimedProduct, WholeStep
from hpcai.results import kernel_choice as rule
from hpcai.train.layer_timer import BACKWARD, LayerTimer
from hpcai.train.loop import Training
from hpcai.train.providers import SEQUENCES, Choice, use_custom

Timed = tuple[Product | str, str, str]  # product or batch norm; pass; provider
Seconds = dict[Timed, float]

VARIANTS: dict[str, frozenset[str]] = {
    VENDOR: frozenset(), **{each: frozenset([each]) for each in DIRECTIONS}, CUSTOM: frozenset(DIRECTIONS)
}
BOTH = "both"  # both passes together


@dataclass(frozen=True)
class Chosen:
    """Times and the choice of kernels that follows; the same on all ranks."""

    measured: KernelChoice
    choice: Choice
    products: Mapping[Product, Collection[str]]  # the custom directions, by product of the first rank


def choose(
    training: Training, comm: MPI.Comm, device: torch.device, known: KernelChoice | None = None
) -> Chosen:
    """The faster kernels of each layer, by `rule`. The training is left unchanged. Collective over `comm`.

    known: the choice of a run that was broken off, which holds when it is resumed.
    """
    steps = TimedSteps.of(training, comm, device)
    copy: Any = deepcopy(training.state.module)
    vendor_module: Layers = copy.train()
    sites = _as_on_first(survey(vendor_module, lambda: steps.seconds(vendor_module)), vendor_module, comm)
    if known is not None:
        return _chosen(sites, known)
    rounds, seconds = _timed(steps, vendor_module, sites)
    products, norms = tuple(_products(sites, seconds).values()), tuple(_norms(sites, seconds))
    measured = KernelChoice(rounds=rounds, products=products, normalisations=norms, whole=None)
    choices = {rule.CHOSEN: _by(sites, measured)[0], CUSTOM: _all_custom(sites)[0]}
    return _chosen(sites, structs.replace(measured, whole=_whole(steps, vendor_module, choices)))


def _by(sites: LayerSites, measured: KernelChoice) -> tuple[Choice, dict[Product, Collection[str]]]:
    """The choice by the times of the layers, and the custom directions by product."""
    products = dict.fromkeys(sites.products.values())
    custom: dict[Product, Collection[str]] = {
        product: entry.custom for product, entry in zip(products, measured.products, strict=True)
    }
    return _choice(sites, custom, {norm.shape for norm in measured.normalisations if norm.chosen}), custom


def _all_custom(sites: LayerSites) -> tuple[Choice, dict[Product, Collection[str]]]:
    """All kernels custom."""
    custom: dict[Product, Collection[str]] = {product: product[1] for product in sites.products.values()}
    return _choice(sites, custom, set(sites.norms.values())), custom


def _chosen(sites: LayerSites, measured: KernelChoice) -> Chosen:
    kept = rule.kept(measured)
    if kept == VENDOR:
        return Chosen(measured, Choice({}, ()), dict.fromkeys(sites.products.values(), ()))
    choice, custom = _by(sites, measured) if kept == rule.CHOSEN else _all_custom(sites)
    return Chosen(measured, choice, custom)


def _as_on_first(sites: LayerSites, module: Layers, comm: MPI.Comm) -> LayerSites:
    """The sites as the first rank has them: a layer has the same kernels on all ranks, whatever their shards of it.

    Norms and attention are those that have a custom kernel on every rank. Collective.
    """
    names = [group[0].layer.name for _, group in normalised(module)]
    names += [name for name, part in module.named_modules() if isinstance(part, SEQUENCES)]
    everywhere = np.array([name in sites.norms for name in names], np.bool_)
    comm.Allreduce(MPI.IN_PLACE, everywhere, MPI.LAND)
    first: LayerSites = comm.bcast(sites)
    products = dict(zip(sites.products, first.products.values(), strict=True))
    return LayerSites(products, {name: first.norms[name] for name, each in zip(names, everywhere, strict=True) if each})


def _choice(sites: LayerSites, custom: Mapping[Product, Collection[str]], norms: Collection[str]) -> Choice:
    """Custom kernels by layer name, from custom directions by product, and batch norms by description."""
    products: dict[str, dict[Any, Collection[str]]] = {}
    for (name, size), product in sites.products.items():
        products.setdefault(name, {})[size] = custom[product]
    return Choice(products, frozenset(name for name, shape in sites.norms.items() if shape in norms))


def _with_kernels(vendor_module: Layers, choice: Choice | None) -> Layers:
    """Copies of the layers that share their parameters, with the chosen custom kernels."""
    module = deepcopy(vendor_module, {id(parameter): parameter for parameter in vendor_module.parameters()})
    if choice is not None:
        use_custom(module, choice)
    return module


def _timed(steps: TimedSteps, vendor_module: Layers, sites: LayerSites) -> tuple[int, Seconds]:
    """Number of rounds, and seconds of each product or norm: minimum over the rounds, maximum over the ranks."""
    everything, norms = set(sites.products.values()), set(sites.norms.values())
    trials = {}
    for variant, directions in VARIANTS.items():
        choice = None if variant == VENDOR else _choice(sites, dict.fromkeys(everything, directions), norms)
        trials[variant] = _with_kernels(vendor_module, choice), LayerTimer(steps.device)
        watch(*trials[variant])
    best: Seconds = {}

    def once(number: int) -> None:
        order = [*trials]
        # so that no variant always follows the same one
        for variant in order[number % len(order) :] + order[: number % len(order)]:
            module, timer = trials[variant]
            steps.seconds(module)
            for timed, elapsed in _by_shape(variant, timer, sites).items():
                best[timed] = min(elapsed, best.get(timed, inf))

    return steps.rounds(once), steps.of_slowest(best)


def _by_shape(variant: str, timer: LayerTimer, sites: LayerSites) -> Seconds:
    """Mean seconds of identical products and norms in a step."""
    multiplicity = Counter([*sites.products.values(), *sites.norms.values()])
    found: Seconds = {}
    for (passed, where), elapsed in timer.seconds().items():
        if where in sites.products:
            timed: Timed = sites.products[where], passed, _provider_field(variant, passed, sites.products[where])
        elif where in sites.norms:
            timed = sites.norms[where], BOTH, VENDOR if variant == VENDOR else CUSTOM
        else:
            continue
        found[timed] = found.get(timed, 0.0) + elapsed / multiplicity[timed[0]]
    return found


def _provider_field(variant: str, passed: str, product: Product) -> str:
    """The field of Forward or Backward for a pass in which these directions are custom."""
    if variant == VENDOR:
        return VENDOR
    directions = [each for each in product[1] if (each == FORWARD) == (passed == FORWARD)]
    return rule.label([each for each in directions if each in VARIANTS[variant]], directions)


def _products(sites: LayerSites, seconds: Seconds) -> dict[Product, TimedProduct]:
    """The times of each product, in the order of the layers."""
    entries = {}
    for product, layers in Counter(sites.products.values()).items():
        by_provider = {
            passed: {by: each for (what, its, by), each in seconds.items() if (what, its) == (product, passed)}
            for passed in (FORWARD, BACKWARD)
        }
        forward, backward = Forward(**by_provider[FORWARD]), Backward(**by_provider[BACKWARD])
        entries[product] = TimedProduct(
            kernel=cast(Kernel, spec_of(product[0]).name),
            shape=product[0].text(FORWARD),
            layers=layers,
            forward=forward,
            backward=backward,
            custom=rule.chosen(forward, backward),
        )
    return entries


def _norms(sites: LayerSites, seconds: Seconds) -> list[TimedNormalisation]:
    """The times of the batch norms of each shape."""
    return [
        TimedNormalisation(
            shape=shape,
            layers=layers,
            vendor=seconds[shape, BOTH, VENDOR],
            custom=seconds[shape, BOTH, CUSTOM],
            chosen=rule.normalised(seconds[shape, BOTH, VENDOR], seconds[shape, BOTH, CUSTOM]),
        )
        for shape, layers in Counter(sites.norms.values()).items()
    ]


def _whole(steps: TimedSteps, vendor_module: Layers, choices: Mapping[str, Choice]) -> WholeStep:
    """Seconds of a step of the whole network by the vendor, as chosen, and all custom: minimum over the rounds."""
    modules = {VENDOR: _with_kernels(vendor_module, None)}
    modules |= {name: _with_kernels(vendor_module, choice) for name, choice in choices.items()}
    best = dict.fromkeys(modules, inf)

    def once(number: int) -> None:
        for name, module in modules.items():
            best[name] = min(best[name], steps.seconds(module))

    steps.rounds(once)
    slowest = steps.of_slowest(best)
    return WholeStep(vendor=slowest[VENDOR], chosen=slowest[rule.CHOSEN], custom_step=slowest[CUSTOM])
