"""What the models of a case did, summed over the ranks in constant memory."""

from collections.abc import Sequence
from typing import Any

from mpi4py import MPI

from hpcai.comm import reductions
from hpcai.comm.grid import Group
from hpcai.formulas import score
from hpcai.formulas.sample_fingerprint import expected_fingerprint
from hpcai.train.loop import Training
from hpcai.train.parallel import differs_from_leader


def so_far(training: Training, group: Group) -> dict[str, Any]:
    """What has been done until now, of a training that may have stopped early. Collective over all active ranks."""
    progress = training.state.progress
    skipped = training.state.skipped_samples
    counts = {"samples": progress.samples - skipped, "skipped_samples": skipped}
    counts |= {"executed_operations": progress.operations, "steps": progress.steps * group.leader}
    return {
        **reductions.sums(group.active, counts),
        "seconds": group.active.allreduce(progress.training_seconds, MPI.MAX),
        "curve": group.active.bcast(progress.curve),
    }


def totals(training: Training, group: Group, validation_samples: int, miscounted_together: int) -> dict[str, int]:
    """Sums over all active ranks, or over models where one rank of each speaks; `miscounted_together` by all models."""
    progress = training.state.progress
    expected = expected_fingerprint(validation_samples)
    together = miscounted_together * (group.active.rank == 0)
    miscounted = sum(
        abs(entry["counted"] - validation_samples) + (entry["fingerprint"] != expected) for entry in progress.curve
    )
    return reductions.sums(
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


def between_nodes(group: Group, node: int) -> dict[str, int]:
    """How many models have ranks on several nodes; nothing where none has. `node` numbers this rank's. Collective."""
    apart = group.model.allreduce(node, MPI.MIN) < group.model.allreduce(node, MPI.MAX)
    models = group.active.allreduce(int(apart and group.leader))
    return {"models_between_nodes": models} if models else {}


def members(training: Training, group: Group, validation_samples: int, target: float) -> dict[str, Any]:
    """What the models did one by one, summed up: the same rank of every model meets in `group.across`."""
    curve = training.state.progress.curve
    name, values = _values(curve)
    last, best = values[-1], max(values)
    steps = training.state.progress.steps
    reached = score.first_reaching(curve, validation_samples, target) or {"seconds": 0.0, "epoch": 0}
    across = group.across
    return {
        f"member_{name}_sum": across.allreduce(last),
        f"member_{name}_min": across.allreduce(last, MPI.MIN),
        f"member_{name}_max": across.allreduce(last, MPI.MAX),
        f"member_{name}_best": across.allreduce(best, MPI.MAX),
        "model_steps_min": across.allreduce(steps, MPI.MIN),
        "model_steps_max": across.allreduce(steps, MPI.MAX),
        "reached_models": across.allreduce(int(reached["epoch"] > 0)),
        "reached_seconds_sum": across.allreduce(reached["seconds"]),
        "reached_seconds_max": across.allreduce(reached["seconds"], MPI.MAX),
        "reached_epochs_sum": across.allreduce(reached["epoch"]),
        "reached_epochs_max": across.allreduce(reached["epoch"], MPI.MAX),
    }


def _values(curve: Sequence[dict[str, Any]]) -> tuple[str, list[Any]]:
    """What the entries of a curve are compared by, and its name: correct samples, or the quality of a detector."""
    if "average_precision" in curve[-1]:
        return "quality", [score.mean_precision(entry["average_precision"]) for entry in curve]
    return "correct", [entry["correct"] for entry in curve]
