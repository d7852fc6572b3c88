"""A case put together on a rank: its data, the same everywhere, and the training of its model."""

import torch
from mpi4py import MPI

from hpcai.comm.grid import Group
from hpcai.comm.world import broadcast
from hpcai.data.bootstrap import sampler
from hpcai.data.dataset import Dataset
from hpcai.data.loader import Loader
from hpcai.data.order import Shard, ValidationShard
from hpcai.data.philox import Purpose, seed_of
from hpcai.errors import DataError
from hpcai.inputfile import Case
from hpcai.models.module import build
from hpcai.networks.graph import Graph
from hpcai.train import precision as precisions
from hpcai.train.evaluate import Validation
from hpcai.train.execution import executed_as
from hpcai.train.loop import Training
from hpcai.train.optimisers import sgd
from hpcai.train.proof import noise
from hpcai.train.recipe import Recipe
from hpcai.train.state import TrainingState


def same_data(dataset: Dataset, comm: MPI.Comm) -> Dataset:
    """The dataset, if it is the one of the first rank: a path may lead to other files on another node. Collective."""
    expected = broadcast(comm, dataset.fingerprint)
    if dataset.fingerprint != expected:
        raise DataError(
            f"{dataset.source} holds data of SHA-256 {dataset.fingerprint} here; allowed: {expected}, as on rank 0"
        )
    return dataset


def assembled(case: Case, seed: int, group: Group, device: torch.device, dataset: Dataset, graph: Graph) -> Training:
    """The training of this rank's model, ready to warm up. Collective over the group."""
    recipe, seat, member = Recipe.of(case.settings), group.seat, group.seat.group
    module = build(graph, seed_of(seed, Purpose.WEIGHTS, member)).to(device)
    module.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # a form torch does not declare
    precisions.apply(case["PRECISION"], module, device)
    optimiser = sgd(module, recipe)
    state = TrainingState(module, optimiser, device, precisions.scaler(case["PRECISION"], optimiser, device))
    draws = sampler(case["SAMPLER"], len(dataset.train), seed, member, group.groups)
    loaders = [
        Loader(half, device, dataset.mean, dataset.std, case["RESOLUTION"], batch=recipe.batch, crops=dataset.crops)
        for half in (dataset.train, dataset.validation)
    ]
    judged = ValidationShard(len(dataset.validation), seat.member, group.degree, recipe.batch)
    validation = Validation(loaders[1], judged, device)
    shard = Shard(draws.size, seat.member, group.degree, recipe.batch)
    execution = executed_as(case["COMPILE"], module, group, device)
    known = noise(case["PRECISION"], case["COMPILE"] == "torch")
    return Training(state, execution, recipe, draws, shard, loaders[0], validation, group, seed, known)
