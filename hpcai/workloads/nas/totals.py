"""Measurements of a search, totals over all groups, reduced in constant memory except for the trials themselves."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

from mpi4py import MPI

from hpcai.clock import Phases
from hpcai.comm import reductions
from hpcai.comm.grid import Group
from hpcai.formulas.score import LARGEST
from hpcai.record.record import fields
from hpcai.record.sample_loading import Loading
from hpcai.record.wall_time import Accounting
from hpcai.search.durations import Durations
from hpcai.search.group_runner import GroupLeader, GroupRunner
from hpcai.search.kept_trials import GroupTrial
from hpcai.search.storage import SearchStorage
from hpcai.train import training_checks
from hpcai.train.content_findings import delivered
from hpcai.training.summation import sent_by
from hpcai.training.totals import loading_of
from hpcai.workloads.nas.preparation import Prepared
from hpcai.workloads.nas.record import (
    Coordinator,
    GroupSeconds,
    OverGroups,
    Proposals,
    SearchMeasured,
    SearchPhases,
    SearchWork,
)

EXHAUSTED = "exhausted"  # no group found a new network


def totals(
    group: Group,
    runner: GroupRunner,
    leader: GroupLeader | None,
    storage: SearchStorage | None,
    phases: Phases,
    accounting: Accounting,
    between_nodes: int,
    before: Prepared,
    resumed: tuple[float, ...],
    lost: tuple[int, ...],
    adopted: Sequence[GroupTrial],
) -> tuple[SearchMeasured, str]:
    """The measurements of a search, complete or broken off, and why it ended. Collective over the active ranks.

    `before`: what was measured before the search. `resumed`: seconds of the search at each resumption. `lost`: groups
    that are left out; `adopted`: what their leaders had counted, on the first rank. Only the first rank has the
    `storage`, so the trials and the digest of the history are only there; the rest is the same on all ranks.
    """
    own, active = runner.totals, group.active
    seconds = float(active.allreduce(own.last_return, MPI.MAX))
    counts = _counts(group, leader)
    measured = SearchMeasured(
        dataset=before.dataset,
        target=before.target,
        sharding=before.sharding,
        **before.checks._asdict(),
        vendor_comparison=before.vendor_comparison,
        network_check=before.network_check,
        trials=tuple(storage.trials()) if storage else (),
        history_sha256=storage.appended_sha256 if storage else None,
        work=_work(group, runner, between_nodes),
        seconds=seconds,
        group_seconds=_group_seconds(group, runner, seconds),
        lost_groups=lost,
        retired_groups=active.allreduce((bool(runner.left) + own.lost_and_retired) * group.leader),
        granted=counts.granted,
        duplicates=counts.duplicates,
        coordinator=_coordinator(group, leader, counts, adopted),
        proposals=_proposals(group, leader, adopted),
        replay=training_checks.measured(own.found.findings, group),
        accounting=accounting,
        delivered=delivered(own.found.contents, before.content, group),
        evaluation_deviation=_evaluation(group, runner),
        loading=loading_of(Loading, own.found.loading, active),
        sent=sent_by(before.all_reduce, own.found.sent, own.steps, active),
        largest_deviation=min(active.allreduce(own.deviation, MPI.MAX), LARGEST),
        phases=_phases(group, phases),
        resumed=resumed,
    )
    return measured, counts.ended_by


def _work(group: Group, runner: GroupRunner, between_nodes: int) -> SearchWork:
    own, active = runner.totals, group.active
    return SearchWork(
        samples=active.allreduce(own.samples * group.leader),
        skipped_samples=active.allreduce(own.skipped_samples * group.leader),
        executed_operations=active.allreduce(own.executed_operations * group.leader),
        steps=active.allreduce(own.steps * group.leader),
        differing_ranks=active.allreduce(own.found.differing_ranks * group.leader),
        between_nodes=between_nodes,
    )


def _evaluation(group: Group, runner: GroupRunner) -> float | None:
    """The largest deviation of an evaluation from the simple path / bound; None where no trial was compared."""
    deviation = group.active.allreduce(runner.totals.found.evaluation, MPI.MAX)
    return deviation if group.active.allreduce(runner.totals.found.evaluated) else None


def _phases(group: Group, phases: Phases) -> SearchPhases:
    """Seconds of the slowest rank by phase."""
    names = [field.name for field in fields(SearchPhases)]
    known = {name: phases.seconds[name] for name in names if name in phases.seconds}
    return SearchPhases(**reductions.largest(group.active, known))


def _group_seconds(group: Group, runner: GroupRunner, seconds: float) -> GroupSeconds:
    """Minimum, mean and maximum over the groups of the seconds of each activity; `idle` is the rest."""
    own = [runner.totals.seconds, *runner.totals.lost_seconds] if group.leader else []
    return GroupSeconds(
        training=_over_groups(group, [each["training"] for each in own]),
        validation=_over_groups(group, [each["validation"] for each in own]),
        warmup=_over_groups(group, [each["warm_up"] for each in own]),
        idle=_over_groups(group, [max(0.0, seconds - sum(each.values())) for each in own]),
    )


def _over_groups(group: Group, seconds: Sequence[float]) -> OverGroups:
    """Of all groups of the grid; those that this rank speaks for."""
    active = group.active
    return OverGroups(
        min=active.allreduce(min(seconds, default=inf), MPI.MIN),
        mean=active.allreduce(sum(seconds)) / group.planned,
        max=active.allreduce(max(seconds, default=0.0), MPI.MAX),
    )


@dataclass(frozen=True)
class _Counts:
    """What the coordinator counted."""

    granted: int
    duplicates: int
    ended_by: str
    requests: int
    busy_seconds: float


def _counts(group: Group, leader: GroupLeader | None) -> _Counts:
    counts = None
    if leader and leader.coordinator:
        known = leader.coordinator.coordinator.counts
        counts = _Counts(
            granted=known.granted,
            duplicates=known.duplicates,
            ended_by=known.ended_by or EXHAUSTED,
            requests=known.requests,
            busy_seconds=leader.coordinator.busy_seconds,
        )
    found: _Counts = group.active.bcast(counts)
    return found


def _coordinator(
    group: Group, leader: GroupLeader | None, counts: _Counts, adopted: Sequence[GroupTrial]
) -> Coordinator:
    """The coordinator's busy time, and how long leaders waited for its answers."""
    waits = Durations()
    for each in (*([leader.request] if leader else ()), *adopted):
        waits.join(each.waits)
    answered = group.active.allreduce(waits.count)
    return Coordinator(
        requests=counts.requests,
        busy_seconds=counts.busy_seconds,
        wait_mean=group.active.allreduce(waits.total) / max(1, answered),
        wait_max=group.active.allreduce(waits.largest, MPI.MAX),
    )


def _proposals(group: Group, leader: GroupLeader | None, adopted: Sequence[GroupTrial]) -> Proposals:
    proposed = Durations()
    for each in (*([leader.request] if leader else ()), *adopted):
        proposed.join(each.proposals)
    rejected = (leader.request.rejected if leader else 0) + sum(each.rejected for each in adopted)
    count = group.active.allreduce(proposed.count)
    return Proposals(
        count=count,
        rejected=group.active.allreduce(rejected),
        seconds_mean=group.active.allreduce(proposed.total) / max(1, count),
        seconds_max=group.active.allreduce(proposed.largest, MPI.MAX),
    )
