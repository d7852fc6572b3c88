"""KERNELS auto: layers are timed by custom kernels and by the vendor's, within steps of the network that is to train.

So operands lie, and are warm or cold, as they are in training; all ranks compute at the same time, with all their
threads; and gradients that share what they read are timed together. Steps by several sets of kernels take turns.
"""

from collections import Counter
from collections.abc import Collection, Mapping
from copy import deepcopy
from dataclasses import dataclass
from itertools import count
from math import inf
from typing import Any, cast

import numpy as np
import torch
from mpi4py import MPI

from hpcai import clock
from hpcai.kernels.layers import spec_of
from hpcai.kernels.providers import CUSTOM, VENDOR
from hpcai.kernels.spec import DIRECTIONS, FORWARD
from hpcai.models.module import Layers
from hpcai.preflight.layer_products import Product
from hpcai.preflight.layer_sites import Places, survey, watch
from hpcai.record.preflight import Backward, Forward, Kernel, KernelChoice, TimedNormalisation, TimedProduct, WholeStep
from hpcai.results import kernel_choice as rule
from hpcai.train.layer_timer import BACKWARD, Laps
from hpcai.train.loop import Training
from hpcai.train.providers import Choice, take_over

Batch = tuple[torch.Tensor, torch.Tensor]
Timed = tuple[Product | str, str, str]  # what was timed, a product or a batch norm; its pass, and by whom
Seconds = dict[Timed, float]

WAYS: dict[str, frozenset[str]] = {
    VENDOR: frozenset(), **{each: frozenset([each]) for each in DIRECTIONS}, CUSTOM: frozenset(DIRECTIONS)
}
BUDGET = 5.0  # seconds of timed steps, after those of the first round
MOST = 9  # rounds
BOTH = "both"  # passes


@dataclass(frozen=True)
class Chosen:
    """What was timed, and what follows from it; the same on all ranks."""

    measured: KernelChoice
    choice: Choice
    products: Mapping[Product, Collection[str]]  # the directions that are custom


@dataclass(frozen=True)
class _Steps:
    """Steps of a training without its group, each on the same full batch; ranks begin them together."""

    training: Training
    comm: MPI.Comm
    device: torch.device
    batch: Batch

    @classmethod
    def of(cls, training: Training, comm: MPI.Comm, device: torch.device) -> "_Steps":
        ((x, y, _),) = training.loader([training.sampler.draw(training.shard.step_positions(0))])
        again = torch.arange(training.recipe.batch, device=device) % len(x)  # a small set may have no full batch
        full = (x, y) if len(x) == len(again) else (x[again].contiguous(memory_format=torch.channels_last), y[again])
        return cls(training, comm, device, full)

    def seconds(self, module: Layers) -> float:
        """Of one forward and backward pass. Collective."""
        clock.synchronise(self.device)
        self.comm.Barrier()
        begin = clock.now()
        self.training.objective(module, *self.batch, 0).backward()
        clock.synchronise(self.device)
        elapsed = clock.now() - begin
        module.zero_grad(set_to_none=True)
        return elapsed

    def rounds(self, once: Any) -> int:
        """Call `once` as often as the budget allows, after a first time, on all ranks; how often it was called."""
        spent = 0.0
        for number in count(1):
            begin = clock.now()
            once(number)
            elapsed: float = self.comm.allreduce(clock.now() - begin, MPI.MAX)
            spent += elapsed if number > 1 else 0.0
            if number == MOST or (number > 1 and spent + elapsed > BUDGET):
                return number
        raise AssertionError("there is a most")

    def of_slowest(self, best: dict[Any, float]) -> dict[Any, float]:
        """The largest of all ranks; the names in the same order on each."""
        own = np.array([*best.values()])
        self.comm.Allreduce(MPI.IN_PLACE, own, MPI.MAX)
        return dict(zip(best, own.tolist(), strict=True))


def choose(training: Training, comm: MPI.Comm, device: torch.device) -> Chosen:
    """The faster kernels of each layer, as `rule` says. The training is left as it was. Collective over `comm`."""
    steps = _Steps.of(training, comm, device)
    copy: Any = deepcopy(training.state.module)
    vendors: Layers = copy.train()
    places = survey(vendors, lambda: steps.seconds(vendors))
    rounds, seconds = _timed(steps, vendors, places)
    products, norms = _products(places, seconds), _norms(places, seconds)
    custom: dict[Product, Collection[str]] = {product: entry.custom for product, entry in products.items()}
    choice = _choice(places, custom, {norm.shape for norm in norms if norm.chosen})
    some = any(custom.values()) or bool(choice.normalisations)
    measured = KernelChoice(
        rounds=rounds,
        products=tuple(products.values()),
        normalisations=tuple(norms),
        whole=_whole(steps, vendors, choice) if some else None,
    )
    if rule.pays_off(measured):
        return Chosen(measured, choice, custom)
    return Chosen(measured, Choice({}, ()), dict.fromkeys(custom, ()))


def _choice(places: Places, custom: Mapping[Product, Collection[str]], norms: Collection[str]) -> Choice:
    """What is custom by the names of layers, from what is custom by product, and by batch norms in words."""
    products: dict[str, dict[Any, Collection[str]]] = {}
    for (name, size), product in places.products.items():
        products.setdefault(name, {})[size] = custom[product]
    return Choice(products, frozenset(name for name, shape in places.norms.items() if shape in norms))


def _arranged(vendors: Layers, choice: Choice | None) -> Layers:
    """The same layers, with the same parameters, by custom kernels as far as they are chosen."""
    module = deepcopy(vendors, {id(parameter): parameter for parameter in vendors.parameters()})
    if choice is not None:
        take_over(module, choice)
    return module


def _timed(steps: _Steps, vendors: Layers, places: Places) -> tuple[int, Seconds]:
    """The number of rounds, and seconds of a product or norm: of all rounds the least, of the ranks the most."""
    everything, norms = set(places.products.values()), set(places.norms.values())
    trials = {}
    for way, directions in WAYS.items():
        choice = None if way == VENDOR else _choice(places, dict.fromkeys(everything, directions), norms)
        trials[way] = _arranged(vendors, choice), Laps(steps.device)
        watch(*trials[way])
    best: Seconds = {}

    def once(number: int) -> None:
        order = [*trials]
        for way in order[number % len(order) :] + order[: number % len(order)]:  # nobody always follows the same one
            module, laps = trials[way]
            steps.seconds(module)
            for timed, elapsed in _by_shape(way, laps, places).items():
                best[timed] = min(elapsed, best.get(timed, inf))

    return steps.rounds(once), steps.of_slowest(best)


def _by_shape(way: str, laps: Laps, places: Places) -> Seconds:
    """Mean seconds of the products and norms that are alike, in a step."""
    alike = Counter([*places.products.values(), *places.norms.values()])
    found: Seconds = {}
    for (passed, where), elapsed in laps.seconds().items():
        if where in places.products:
            timed: Timed = places.products[where], passed, _by_whom(way, passed, places.products[where])
        elif where in places.norms:
            timed = places.norms[where], BOTH, VENDOR if way == VENDOR else CUSTOM
        else:
            continue
        found[timed] = found.get(timed, 0.0) + elapsed / alike[timed[0]]
    return found


def _by_whom(way: str, passed: str, product: Product) -> str:
    """The field of Forward or Backward that times a pass in which these directions are custom."""
    if way == VENDOR:
        return VENDOR
    directions = [each for each in product[1] if (each == FORWARD) == (passed == FORWARD)]
    return rule.label([each for each in directions if each in WAYS[way]], directions)


def _products(places: Places, seconds: Seconds) -> dict[Product, TimedProduct]:
    """The times of each product, in the order in which layers have them."""
    entries = {}
    for product, layers in Counter(places.products.values()).items():
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


def _norms(places: Places, seconds: Seconds) -> list[TimedNormalisation]:
    """The times of the batch norms of each shape."""
    return [
        TimedNormalisation(
            shape=shape,
            layers=layers,
            vendor=seconds[shape, BOTH, VENDOR],
            custom=seconds[shape, BOTH, CUSTOM],
            chosen=rule.normalised(seconds[shape, BOTH, VENDOR], seconds[shape, BOTH, CUSTOM]),
        )
        for shape, layers in Counter(places.norms.values()).items()
    ]


def _whole(steps: _Steps, vendors: Layers, choice: Choice) -> WholeStep:
    """Seconds of a step of the whole network by the vendor, and as chosen; of all rounds the least."""
    modules = {VENDOR: _arranged(vendors, None), "chosen": _arranged(vendors, choice)}
    best = dict.fromkeys(modules, inf)

    def once(number: int) -> None:
        for name, module in modules.items():
            best[name] = min(best[name], steps.seconds(module))

    steps.rounds(once)
    return WholeStep(**steps.of_slowest(best))
