"""Totals of a search over all groups, reduced in constant memory except for the trials themselves."""

from collections.abc import Sequence
from typing import Any

from mpi4py import MPI

from hpcai.clock import Phases
from hpcai.comm import reductions
from hpcai.comm.grid import Group
from hpcai.formulas.score import LARGEST
from hpcai.record.record import as_json
from hpcai.record.trial import Trial
from hpcai.search.group_runner import GroupLeader, GroupRunner
from hpcai.train import proof

Json = dict[str, Any]
EXHAUSTED = "exhausted"  # no group found another network


def summary(
    group: Group, runner: GroupRunner, leader: GroupLeader | None, trials: Sequence[Trial], phases: Phases
) -> Json:
    """The raw measurement; only rank 0 has the `trials`, the rest is the same on every active rank. Collective."""
    totals, active = runner.totals, group.active
    seconds = float(active.allreduce(totals.last_return, MPI.MAX))
    return {
        "trials": [as_json(trial) for trial in trials],
        "seconds": seconds,
        "group_seconds": _group_seconds(group, runner, seconds),
        "retired_groups": active.allreduce(int(bool(runner.left)) * group.leader),
        **_coordinated(group, leader),
        "audit": proof.measured(totals.findings, group),
        "differing_ranks": active.allreduce(totals.differing_ranks * group.leader),
        "samples": active.allreduce(totals.samples * group.leader),
        "skipped_samples": active.allreduce(totals.skipped_samples * group.leader),
        "steps": active.allreduce(totals.steps * group.leader),
        "executed_operations": active.allreduce(totals.executed_operations * group.leader),
        "largest_deviation": min(active.allreduce(totals.deviation, MPI.MAX), LARGEST),
        "proposals": _proposals(group, leader),
        "phases": reductions.largest(active, phases.seconds),
    }


def _group_seconds(group: Group, runner: GroupRunner, seconds: float) -> Json:
    """Minimum, mean and maximum over the groups of the seconds of each activity; `idle` is the rest."""
    activities = {name.replace("-", ""): taken for name, taken in runner.totals.seconds.items()}
    activities["idle"] = max(0.0, seconds - sum(activities.values()))
    active = group.active
    return {
        name: {
            "min": active.allreduce(taken if group.leader else float("inf"), MPI.MIN),
            "mean": active.allreduce(taken * group.leader) / group.groups,
            "max": active.allreduce(taken * group.leader, MPI.MAX),
        }
        for name, taken in activities.items()
    }


def _coordinated(group: Group, leader: GroupLeader | None) -> Json:
    """Counts of the coordinator, its busy time, and how long leaders waited for its answers."""
    counts = None
    if leader and leader.coordinator:
        known = leader.coordinator.coordinator.counts
        counts = {
            "granted": known.granted,
            "duplicates": known.duplicates,
            "ended_by": known.ended_by or EXHAUSTED,
            "coordinator": {"requests": known.requests, "busy_seconds": leader.coordinator.busy_seconds},
        }
    found: Json = group.active.bcast(counts)
    waits = leader.request.waits if leader else []
    answered = group.active.allreduce(len(waits))
    found["coordinator"] |= {
        "wait_mean": group.active.allreduce(sum(waits)) / max(1, answered),
        "wait_max": group.active.allreduce(max(waits, default=0.0), MPI.MAX),
    }
    return found


def _proposals(group: Group, leader: GroupLeader | None) -> Json:
    seconds = leader.request.seconds if leader else []
    count = group.active.allreduce(len(seconds))
    return {
        "count": count,
        "rejected": group.active.allreduce(leader.request.rejected if leader else 0),
        "seconds_mean": group.active.allreduce(sum(seconds)) / max(1, count),
        "seconds_max": group.active.allreduce(max(seconds, default=0.0), MPI.MAX),
    }
