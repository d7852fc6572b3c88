"""Image classification by an ensemble of P models, each trained by Q ranks (HPC AI500 V3; P = 1 is V2)."""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import torch
from mpi4py import MPI

from hpcai import clock, score
from hpcai.comm import reduce
from hpcai.comm.ending import Ending
from hpcai.comm.grid import Group, split
from hpcai.comm.rendezvous import process_group
from hpcai.comm.world import World, broadcast
from hpcai.data import catalog
from hpcai.data.bootstrap import sampler
from hpcai.data.dataset import Dataset
from hpcai.data.dataset import description as describe
from hpcai.data.loader import Loader
from hpcai.data.order import Shard, ValidationShard
from hpcai.data.philox import Purpose, seed_of
from hpcai.data.stage import Staged, staged
from hpcai.errors import DataError
from hpcai.inputfile import Case
from hpcai.machine import memory
from hpcai.models.module import build
from hpcai.networks.graph import Graph
from hpcai.train import bagging
from hpcai.train import precision as precisions
from hpcai.train.evaluate import Validation, expected_fingerprint
from hpcai.train.execution import executed_as
from hpcai.train.loop import Training
from hpcai.train.optimisers import sgd
from hpcai.train.parallel import differs_from_leader, wrong_sums
from hpcai.train.proof import noise
from hpcai.train.recipe import Recipe
from hpcai.train.state import Progress, TrainingState
from hpcai.workloads import seconds
from hpcai.workloads.prepare import network
from hpcai.workloads.probe import probe
from hpcai.workloads.residuals import worst_residuals

Measurement = dict[str, Any]  # raw observations by name, the same on all ranks that took part


@dataclass(frozen=True)
class Stopped:
    """What was measured of a case before the run was to end; the same on all ranks that took part."""

    raw: Measurement


def run(
    case: Case, seed: int, world: World, device: torch.device, tell: Callable[[str, float], None], ending: Ending
) -> Measurement | Stopped | None:
    """Measure one case; None on ranks that stay idle, which sleep until it is over. Collective over all ranks.

    When `ending` says so, it stops at the next step and returns what was measured until then. `tell` hears how far
    this rank's model has come, in words, and the share of the training that is done.
    """
    group = split(world.comm, case["GROUPS"], case["DEGREE"], case["MAPPING"])
    measurement: Measurement | Stopped | None = None
    with staged(case, seed, group, world, ending) as copy:
        if group is not None:
            with process_group(group, world.host, device) as backend, precisions.switched(case["PRECISION"]):
                measurement = _measure(case, seed, group, device, tell, copy, ending, world.host)
            if not isinstance(measurement, Stopped):
                measurement["backend"] = backend
                if copy is not None:
                    measurement["staging"] = copy.measured
            group.free()
        ending.barrier(world.comm)
    return measurement


def _measure(
    case: Case,
    seed: int,
    group: Group,
    device: torch.device,
    tell: Callable[[str, float], None],
    copy: Staged | None,
    ending: Ending,
    host: str,
) -> Measurement | Stopped:
    phases = clock.Phases(device)
    if copy is not None:
        phases.seconds["staging"] = copy.measured["seconds"]
    with phases.measure("set-up"):
        opened = copy and copy.dataset
        dataset = _same_data(opened or catalog.open_for(case.data_settings), group.active)
        description, target = describe(dataset), case["TARGET"] or dataset.target
        graph = network(case, dataset)
        training = _training(case, seed, group, device, dataset, graph)
    wrong = wrong_sums(group, device, sum(graph.parameters.values()))
    with phases.measure("residuals"):
        arithmetic = precisions.PRECISIONS[case["PRECISION"]].arithmetic
        residuals = worst_residuals(graph, case["BATCH"], group.active, device, seed, arithmetic)
        memory.give_back()  # what the checks needed, before a step needs its own
    probed = _probed(case["PRECISION"], graph, group, device, phases)
    with phases.measure("warm-up"):
        warmup_steps = training.warm_up()
    if ending.agreed(group.active):
        return _stopped("preparation", training, dataset, group)
    if case.index == 1:
        phases.seconds["start-up"] = clock.since_process_start()
    training.run(phases, ending, lambda progress: tell(*_progress(progress, case["EPOCHS"], training.shard.steps)))
    if ending.agreed(group.active):
        return _stopped("training", training, dataset, group)
    with phases.measure("ensemble"):
        verdicts = bagging.judge(
            training.state.module,
            group,
            training.validation,
            training.loader,
            training.sampler,
            ending,
        )
    if ending.agreed(group.active):
        return _stopped("ensemble", training, dataset, group)
    memory.give_back()  # the profiler's books would come to lie between a step's large blocks
    with phases.measure("profile"):
        operations = seconds.profiled(training, group, ending)
    return {
        "dataset": description,
        "target": target,
        "steps_per_epoch": training.shard.steps,
        "sharding": training.shard.rule,
        "warmup_steps": warmup_steps,
        "wrong_sums": group.active.allreduce(wrong),
        "residuals": residuals,
        **probed,
        "audit": training.proof.measured(),
        "execution": training.execution.measured(group.active),
        "curve": group.active.bcast(training.state.progress.curve),
        **asdict(verdicts),
        **_totals(training, group, len(dataset.validation), verdicts.validation_miscounted),
        **_members(training, group, len(dataset.validation), target),
        "operation_seconds": operations,
        **seconds.all_ranks(training, phases, host, group.active),
    }


def _probed(precision: str, graph: Graph, group: Group, device: torch.device, phases: clock.Phases) -> Measurement:
    """What the probe of a precision found; nothing for fp32, which others are compared with. Collective."""
    if precision == "fp32":
        return {}
    with phases.measure("probe"):
        return {"probe": probe(graph, precision, group.active, device)}


def _same_data(dataset: Dataset, comm: MPI.Comm) -> Dataset:
    """The dataset, if it is the one of the first rank: a path may lead to other files on another node. Collective."""
    expected = broadcast(comm, dataset.fingerprint)
    if dataset.fingerprint != expected:
        raise DataError(
            f"{dataset.source} holds data of SHA-256 {dataset.fingerprint} here; allowed: {expected}, as on rank 0"
        )
    return dataset


def _training(case: Case, seed: int, group: Group, device: torch.device, dataset: Dataset, graph: Graph) -> Training:
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


def _progress(progress: Progress, epochs: int, steps: int) -> tuple[str, float]:
    """How far the first model has come: in words, and as a share of its steps."""
    judged = f", {progress.curve[-1]['correct']} judged right" if progress.curve else ""
    return f"epoch {min(progress.epoch + 1, epochs)} of {epochs}{judged}", progress.steps / (epochs * steps)


def _stopped(where: str, training: Training, dataset: Dataset, group: Group) -> Stopped:
    """What was measured until the run was to end. Collective over all active ranks."""
    progress = training.state.progress
    credited = progress.samples - training.state.skipped_samples
    counts = {"samples": credited, "executed_operations": progress.operations}
    return Stopped(
        {
            "where": where,
            "dataset": describe(dataset),
            **reduce.sums(group.active, {**counts, "steps": progress.steps * group.leader}),
            "seconds": group.active.allreduce(progress.training_seconds, MPI.MAX),
            "curve": group.active.bcast(progress.curve),
        }
    )


def _totals(training: Training, group: Group, validation_samples: int, miscounted_together: int) -> dict[str, int]:
    """Sums over all active ranks, or over models where one rank of each speaks; `miscounted_together` by all models."""
    progress = training.state.progress
    expected = expected_fingerprint(validation_samples)
    together = miscounted_together * (group.active.rank == 0)
    miscounted = sum(
        abs(entry["counted"] - validation_samples) + (entry["fingerprint"] != expected) for entry in progress.curve
    )
    return reduce.sums(
        group.active,
        {
            "samples": progress.samples - training.state.skipped_samples,
            "skipped_steps": training.state.skipped_steps * group.leader,
            "skipped_samples": training.state.skipped_samples,
            "executed_operations": progress.operations,
            "differing_ranks": int(differs_from_leader(training.state.module, group)),
            "steps": progress.steps * group.leader,
            "validation_passes": len(progress.curve) * group.leader,
            "validation_counted": sum(entry["counted"] for entry in progress.curve) * group.leader,
            "validation_miscounted": miscounted * group.leader + together,
            "diverged_models": (progress.curve[-1]["loss"] is None) * group.leader,
        },
    )


def _members(training: Training, group: Group, validation_samples: int, target: float) -> dict[str, Any]:
    """What the models did one by one, summed up: the same rank of every model meets in `group.across`."""
    curve = training.state.progress.curve
    last, best = curve[-1]["correct"], max(entry["correct"] for entry in curve)
    steps = training.state.progress.steps
    reached = score.first_reaching(curve, validation_samples, target) or {"seconds": 0.0, "epoch": 0}
    across = group.across
    return {
        "member_correct_sum": across.allreduce(last),
        "member_correct_min": across.allreduce(last, MPI.MIN),
        "member_correct_max": across.allreduce(last, MPI.MAX),
        "member_correct_best": across.allreduce(best, MPI.MAX),
        "model_steps_min": across.allreduce(steps, MPI.MIN),
        "model_steps_max": across.allreduce(steps, MPI.MAX),
        "reached_models": across.allreduce(int(reached["epoch"] > 0)),
        "reached_seconds_sum": across.allreduce(reached["seconds"]),
        "reached_seconds_max": across.allreduce(reached["seconds"], MPI.MAX),
        "reached_epochs_sum": across.allreduce(reached["epoch"]),
        "reached_epochs_max": across.allreduce(reached["epoch"], MPI.MAX),
    }
