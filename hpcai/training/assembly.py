"""Builds the training of a case on a rank: its dataset, the same everywhere, and its model."""

from collections.abc import Mapping
from typing import Any, TypeVar

import numpy as np
import torch
from mpi4py import MPI

from hpcai.comm.grid import Group
from hpcai.comm.world import broadcast
from hpcai.data.bootstrap import Sampler, Whole, sampler
from hpcai.data.image_dataset import Dataset
from hpcai.data.image_loader import Loader
from hpcai.data.order import Shard, ValidationShard
from hpcai.data.philox import Purpose, below, seed_of, stream
from hpcai.data.weather.weather_dataset import Weather
from hpcai.errors import DataError
from hpcai.inputfile import Case
from hpcai.machine import memory
from hpcai.models.module import Layers, Network, build
from hpcai.models.tensor_part import build_part
from hpcai.networks.graph import Graph
from hpcai.opcount.stages import parts_of, tied_of
from hpcai.search.child_builder import Child
from hpcai.search.group_runner import OutOfMemory
from hpcai.search.trial_plan import TrialPlan
from hpcai.train import precision as precisions
from hpcai.train.channel_exchange import exchange_of
from hpcai.train.loop import WARMUP_STEPS, Training
from hpcai.train.providers import use_custom
from hpcai.train.recipe import Recipe
from hpcai.train.replay import NONE, rounding_allowance
from hpcai.train.state import training_state
from hpcai.train.validation import Validation
from hpcai.training.content import check_contents
from hpcai.training.execution import execution_of, share_numbers

Data = TypeVar("Data", Dataset, Weather)
Module = TypeVar("Module", bound=Layers)

REPLAYED_TRIALS = 8  # one trial of this many is replayed, on average


def same_data(dataset: Data, comm: MPI.Comm) -> Data:
    """The dataset, checked to be that of the first rank: a path may lead to other files on another node. Collective."""
    expected = broadcast(comm, dataset.fingerprint)
    if dataset.fingerprint != expected:
        raise DataError(
            f"{dataset.source} holds data of SHA-256 {dataset.fingerprint} here; allowed: {expected}, as on rank 0"
        )
    return dataset


def model_training(case: Case, group: Group, device: torch.device, dataset: Dataset, graph: Graph) -> Training:
    """The training of this rank's model, ready to warm up. Collective over the group."""
    member = group.coordinates.group
    module = model_of(case, group, device, graph)
    draws = sampler(case.sampler, len(dataset.train), case.seed, member, group.planned)
    placed(module, case, device)
    return training_of(case, group, device, dataset, module, draws, Recipe.of(case.settings))


def model_of(case: Case, group: Group, device: torch.device, graph: Graph) -> Network:
    """The module of this rank's model, or of its part, on the CPU; its parameters are the same on any split."""
    seed, divided, place = seed_of(case.seed, Purpose.WEIGHTS, group.coordinates.group), group.divided, group.place
    if divided.parts == 1:
        return build(graph, seed)
    module = build_part(graph, parts_of(graph, case.cut, place.shard)[place.stage], seed)
    module.tied = {tied.layers[place.stage]: tied for tied in tied_of(graph, case.cut) if place.stage in tied.layers}
    if divided.shards > 1:
        exchange = exchange_of(group, device)
        module.exchanges.connect(exchange.training, exchange.replay)
    return module


def initial_module(case: Case, graph: Graph, device: torch.device) -> Network:
    """The initial network of a search, with its kernels and in its precision."""
    return placed(build(graph, seed_of(case.seed, Purpose.WEIGHTS, 0)), case, device)


def initial_training(
    case: Case, group: Group, device: torch.device, dataset: Dataset, graph: Graph
) -> Training:
    """The training of the initial network of a search, on all samples. Collective over the group."""
    module = initial_module(case, graph, device)
    draws = Whole(len(dataset.train))
    return training_of(case, group, device, dataset, module, draws, Recipe.of(case.settings), losses=True)


def trial_training(
    case: Case, group: Group, device: torch.device, dataset: Dataset, plan: TrialPlan, child: Child
) -> Training:
    """The training of a trial of a search, on all samples. Collective over the group; OutOfMemory if it does not fit.

    A full batch is tried first, on each rank by itself: if one rank has too little memory, the others must not wait for
    it.
    """
    module = placed(Network(child.graph).to_empty(device="cpu"), case, device)
    lacking = not has_room(module, plan.hyperparameters.batch, child.graph, device)
    if group.model.allreduce(int(lacking), MPI.MAX):
        raise OutOfMemory
    module.load_state_dict(child.state)
    settings = {**case.settings, "BATCH": plan.hyperparameters.batch}
    recipe = Recipe.of(settings)
    draws = Whole(len(dataset.train))
    audited_epoch = draw_audited_epoch(plan, case.seed)
    trained = (case, group, device, dataset, module, draws, recipe)
    return training_of(
        *trained, losses=True, warmup_steps=0, audited_epoch=audited_epoch, settings=settings
    )


def draw_audited_epoch(plan: TrialPlan, seed: int) -> int:
    """The epoch of a trial of which a step is replayed, from 0; NONE for most trials after a group's first one."""
    lot, epoch = below(2**31, seed, stream(Purpose.REPLAYED_STEP, plan.id, 1), np.arange(2))
    return int(epoch) % plan.epochs if plan.round == 1 or lot % REPLAYED_TRIALS == 0 else NONE


def placed(module: Module, case: Case, device: torch.device) -> Module:
    """The module on the device, in the memory format and precision of the training."""
    module.to(device)
    module.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # not in torch's type stubs
    precisions.apply(case.precision, module, device)
    if case.all_custom:
        use_custom(module)
    return module


def has_room(module: Network, batch: int, graph: Graph, device: torch.device) -> bool:
    """Whether a training step with a full batch fits into memory; the caller must undo what it does to the module."""
    try:
        x = torch.zeros(batch, *graph.shapes[graph.layers[0].name], device=device)
        module(x.to(memory_format=torch.channels_last)).sum().backward()
    except (RuntimeError, MemoryError) as error:
        if not memory.is_out_of_memory(error):
            raise
        return False
    finally:
        module.zero_grad(set_to_none=True)
    return True


def training_of(
    case: Case,
    group: Group,
    device: torch.device,
    dataset: Dataset,
    module: Network,
    draws: Sampler,
    recipe: Recipe,
    *,
    losses: bool = False,
    warmup_steps: int = WARMUP_STEPS,
    audited_epoch: int | None = None,
    settings: Mapping[str, Any] | None = None,
) -> Training:
    """The training of a module that is on its device. Collective over the group.

    settings: those that the module is trained by, where they are not the case's.
    """
    replica, replicas, compiled = group.place.replica, group.divided.replicas, str(case.settings.get("COMPILE", "off"))
    state = training_state(module, recipe, case.precision, device)
    loaders = [
        Loader(half, device, dataset.mean, dataset.std, case.resolution, batch=recipe.batch, crops=dataset.crops)
        for half in (dataset.train, dataset.validation)
    ]
    evaluated = ValidationShard(len(dataset.validation), replica, replicas, recipe.batch)
    validation = Validation(loaders[1], evaluated, device, losses)
    shard = Shard(draws.size, replica, replicas, recipe.batch)
    execution = execution_of(case, group, device, module, (dataset.number_of_classes,))
    known = rounding_allowance(case.precision, case.kernels, compiled == "torch", group.divided.shards)
    share_numbers(state, execution, module, group, device)
    training = Training(
        *(state, execution, recipe, draws, shard, loaders[0], validation),
        *(group, case.seed, known, warmup_steps, audited_epoch),
    )
    check_contents(training, case, dataset, settings)
    return training
