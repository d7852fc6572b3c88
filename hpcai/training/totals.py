"""Totals of a case's models over the ranks, in constant memory."""

from collections.abc import Mapping, Sequence
from typing import Literal, TypeVar

from mpi4py import MPI

from hpcai.comm import reductions
from hpcai.comm.grid import Group
from hpcai.formulas.sample_fingerprint import expected_fingerprint
from hpcai.record.dataset import Dataset, Validation
from hpcai.record.record import fields
from hpcai.record.sample_loading import Loading
from hpcai.record.training import Members, Models, StoppedTraining, Work
from hpcai.train.data_parallel import differs_from_others
from hpcai.train.loop import Training
from hpcai.workloads.workload import Quality

Value = TypeVar("Value", int, float)
Kind = TypeVar("Kind", bound=Loading)


def work_of(training: Training, group: Group, curve: Sequence[Validation], samples: int, miscounted: int) -> Work:
    """Sums over all active ranks, or over models where one rank of each counts. Collective over the active ranks.

    curve: of this rank's model. samples: of the validation set; `miscounted` is of the ensemble's validation.
    """
    state, progress = training.state, training.state.progress
    alone = sum(abs(entry.counted - samples) + (entry.fingerprint != expected_fingerprint(samples)) for entry in curve)
    counts = {
        "samples": (progress.samples - state.skipped_samples) * group.counts,
        "skipped_steps": state.skipped_steps * group.leader,
        "skipped_samples": state.skipped_samples * group.counts,
        "executed_operations": progress.operations,
        "differing_ranks": int(differs_from_others(state.module, group)),
        "steps": progress.steps * group.leader,
        "validation_passes": len(curve) * group.leader,
        "validation_counted": sum(entry.counted for entry in curve) * group.leader,
        "validation_miscounted": alone * group.leader + miscounted * (group.active.rank == 0),
        "diverged_models": (curve[-1].loss is None) * group.leader,
    }
    return Work(**reductions.sums(group.active, counts))


def between_nodes(group: Group, node: int) -> int:
    """Number of models with ranks on several nodes; `node` is the number of this rank's.

    Collective over the active ranks.
    """
    apart = group.model.allreduce(node, MPI.MIN) < group.model.allreduce(node, MPI.MAX)
    return int(group.active.allreduce(int(apart and group.leader)))


def models_of(group: Group, steps: int, reached: Validation | None, apart: int) -> Models:
    """Extremes and sums over the models: the same rank of every model meets in `group.across`. Collective.

    steps and the validation that `reached` the target are of this rank's model; `apart` models lie on several nodes.
    """
    across = group.across
    seconds, epoch = (reached.seconds, reached.epoch) if reached else (0.0, 0)
    return Models(
        steps_min=across.allreduce(steps, MPI.MIN),
        steps_max=across.allreduce(steps, MPI.MAX),
        reached=across.allreduce(int(reached is not None)),
        reached_seconds_sum=across.allreduce(seconds),
        reached_seconds_max=across.allreduce(seconds, MPI.MAX),
        reached_epochs_sum=across.allreduce(epoch),
        reached_epochs_max=across.allreduce(epoch, MPI.MAX),
        between_nodes=apart,
    )


def members_of(of: Quality, group: Group, values: Sequence[Value]) -> Members[Value]:
    """Values of the models' validation curves, summed up over the models. Collective over the active ranks."""
    across, last = group.across, values[-1]
    return Members(
        sum=across.allreduce(last),
        min=across.allreduce(last, MPI.MIN),
        max=across.allreduce(last, MPI.MAX),
        best=across.allreduce(of.best(values), MPI.MAX if of.larger_is_better else MPI.MIN),
    )


def loading_of(kind: type[Kind], own: Mapping[str, float], comm: MPI.Comm) -> Kind:
    """What the loaders measured, summed over the ranks of `comm`; `own` is of this rank, by name. Collective."""
    return kind(**{field.name: comm.allreduce(own.get(field.name, 0)) for field in fields(kind)})


def so_far(
    where: Literal["preparation", "training", "ensemble"],
    dataset: Dataset,
    training: Training,
    group: Group,
    lost: tuple[int, ...],
) -> StoppedTraining:
    """The work done until now, of a training that may have stopped early. Collective over all active ranks.

    lost: groups that are left out.
    """
    progress, skipped = training.state.progress, training.state.skipped_samples
    counts = {
        "samples": (progress.samples - skipped) * group.counts,
        "skipped_samples": skipped * group.counts,
        "executed_operations": progress.operations,
        "steps": progress.steps * group.leader,
    }
    sums = reductions.sums(group.active, counts)
    seconds = group.active.allreduce(progress.training_seconds, MPI.MAX)
    return StoppedTraining(where=where, dataset=dataset, seconds=seconds, lost_groups=lost, **sums)
