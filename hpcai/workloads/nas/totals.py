"""What the groups of a search have done, brought together in constant memory but for the trials themselves."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from mpi4py import MPI

from hpcai.clock import Phases
from hpcai.comm import reductions
from hpcai.comm.grid import Group
from hpcai.formulas.score import LARGEST
from hpcai.search.group_runner import Leader, Squad
from hpcai.search.journal import Trial
from hpcai.train import proof

Json = dict[str, Any]
EXHAUSTED = "exhausted"  # no group found anything more to try


def summary(group: Group, squad: Squad, leader: Leader | None, trials: Sequence[Trial], phases: Phases) -> Json:
    """The raw measurement; `trials` are known to rank 0 alone, all else is the same everywhere. Collective."""
    totals, active = squad.totals, group.active
    seconds = float(active.allreduce(totals.last_return, MPI.MAX))
    return {
        "trials": [asdict(trial) for trial in trials],
        "seconds": seconds,
        "group_seconds": _group_seconds(group, squad, seconds),
        "retired_groups": active.allreduce(int(bool(squad.left)) * group.leader),
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


def _group_seconds(group: Group, squad: Squad, seconds: float) -> Json:
    """Least, mean and most of the groups' seconds by what they did; `idle` is all that was none of it."""
    own = {name.replace("-", ""): taken for name, taken in squad.totals.seconds.items()}
    own["idle"] = max(0.0, seconds - sum(own.values()))
    active = group.active
    return {
        name: {
            "min": active.allreduce(taken if group.leader else float("inf"), MPI.MIN),
            "mean": active.allreduce(taken * group.leader) / group.groups,
            "max": active.allreduce(taken * group.leader, MPI.MAX),
        }
        for name, taken in own.items()
    }


def _coordinated(group: Group, leader: Leader | None) -> Json:
    """What the coordinator was asked and did, and how long leaders waited for its answers."""
    counts = None
    if leader and leader.desk:
        known = leader.desk.coordinator.counts
        counts = {
            "granted": known.granted,
            "duplicates": known.duplicates,
            "ended_by": known.ended_by or EXHAUSTED,
            "coordinator": {"requests": known.requests, "busy_seconds": leader.desk.busy_seconds},
        }
    found: Json = group.active.bcast(counts)
    waits = leader.errand.waits if leader else []
    answered = group.active.allreduce(len(waits))
    found["coordinator"] |= {
        "wait_mean": group.active.allreduce(sum(waits)) / max(1, answered),
        "wait_max": group.active.allreduce(max(waits, default=0.0), MPI.MAX),
    }
    return found


def _proposals(group: Group, leader: Leader | None) -> Json:
    seconds = leader.errand.seconds if leader else []
    count = group.active.allreduce(len(seconds))
    return {
        "count": count,
        "rejected": group.active.allreduce(leader.errand.rejected if leader else 0),
        "seconds_mean": group.active.allreduce(sum(seconds)) / max(1, count),
        "seconds_max": group.active.allreduce(max(seconds, default=0.0), MPI.MAX),
    }
