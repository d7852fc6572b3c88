"""Printed block of a search: HPL's row, checks, scores, notes, score over time, trials."""

from collections.abc import Iterator, Sequence

from hpcai.formulas.aiperf import ScorePoint
from hpcai.record.entry import Row
from hpcai.report import energy, memory, telemetry
from hpcai.report.lines import labelled
from hpcai.report.rows import (
    accounting_notes,
    all_reduce_note,
    check_lines,
    data_notes,
    head,
    kernels_notes,
    lost_note,
    network_note,
    network_notes,
    precision_note,
    replay_notes,
    residual_notes,
    sent_note,
)
from hpcai.report.series import CURVE, Line, Table
from hpcai.report.text import counted, printed, score, with_reasons
from hpcai.results.gradient_cost import sent_by_all
from hpcai.workloads.nas.record import SearchRow
from hpcai.workloads.nas.trial_lines import trial_table

MOST_LINES = 60  # of the score over time
HEAD = f"{'Time':>14} {'GOPS':>16} {'Accuracy':>10} {'Error':>10} {'Score':>16} {'Trials':>8}"
TITLE = (
    "Score over time: Time in s, GOPS in 10^9 operations/s (rule aiperf), best Accuracy so far, Error = 1 - Accuracy, "
    "Score = -ln(Error) x GOPS"
)
DEVIATION = "Differs : AIPerf's master only hands out work; here the coordinator's rank trains as well"
SCORE = ("seconds", "ops", "error", "regulated_score")


def block(entry: SearchRow, rows: Sequence[Row] = ()) -> str:
    """One search: HPL's header and row, a line per check and score, notes, then two tables."""
    lines = [*check_lines(entry), *labelled(entry.scores), *_measured(entry), *_notes(entry), ""]
    return head(entry) + printed([*lines, *_series(entry.scores.series), "", *trial_table(entry), ""])


def _measured(test: SearchRow) -> Iterator[str]:
    raw = test.raw
    yield score("idle time of a group, min, s", raw.group_seconds.idle.min)
    yield score("idle time of a group, max, s", raw.group_seconds.idle.max)
    yield from labelled(raw.coordinator)
    yield from labelled(raw.proposals)
    yield from memory.lines(test.memory)
    yield from telemetry.lines(test.telemetry, test.memory.accelerated)
    yield from energy.lines(raw.energy)
    for record in (test.phases, *filter(None, [test.wall])):
        yield from labelled(record)


def _notes(test: SearchRow) -> Iterator[str]:
    raw, scores, covered = test.raw, test.scores, "the formula and 64 samples of each split"
    yield from lost_note("Groups", raw.lost_groups, test.p)
    yield from data_notes(test.workload, raw.dataset, raw.sharding, raw.staging, covered)
    yield network_note(test, raw.dataset, "a search that began with ")
    ends = ", ".join(f"{count} {end}" for end, count in scores.ends.items() if count)
    yield (
        f"Trials  : {raw.granted} granted, by their end: {ends}; {counted(raw.retired_groups, 'group')} retired; "
        f"the search ended by {raw.ended_by} after {raw.seconds:.2f} s"
    )
    made = raw.proposals
    yield (
        f"Search  : {counted(made.count, 'proposal')}, {raw.duplicates} refused as known, "
        f"{made.rejected} as beyond the limits; {counted(raw.coordinator.requests, 'request')} to the coordinator, "
        f"backend {raw.backend}"
    )
    yield from all_reduce_note(raw.all_reduce)
    yield from sent_note(raw.sent)
    yield from telemetry.traffic_note(test.telemetry, sent_by_all(raw.sent, raw.work.steps, test.q))
    yield precision_note(str(test.settings["PRECISION"]), raw.probe)
    yield DEVIATION
    yield from residual_notes(raw.residuals)
    yield from network_notes(raw.network_check)
    yield from kernels_notes(raw.site_kernels, raw.vendor_comparison)
    yield from replay_notes(raw.replay)
    yield from accounting_notes(raw.accounting)
    yield from memory.notes(test.memory)
    yield telemetry.note(test.telemetry)
    yield energy.note(raw.energy)
    yield with_reasons(f"Status  : {test.status}", test.reasons)


def _series(points: Sequence[ScorePoint]) -> Iterator[str]:
    """The score over time in the columns of AIPerf's report; of many intervals every n-th and the last."""
    yield TITLE
    yield HEAD
    for point in _some(points):
        yield (
            f"{point.seconds:14.2f} {point.ops / 1e9:16.4f} {point.accuracy:10.6f} {point.error:10.6f} "
            f"{point.regulated_score / 1e9:16.4f} {point.trials:8d}"
        )


def _some(points: Sequence[ScorePoint]) -> list[ScorePoint]:
    stride = -(-len(points) // MOST_LINES)
    return [point for place, point in enumerate(points, start=1) if place % stride == 0 or place == len(points)]


def series(entry: SearchRow) -> Iterator[Table]:
    """Score over time and validations of all trials, as tables of series.h5."""
    yield "score", SCORE, [tuple(getattr(point, name) for name in SCORE) for point in entry.scores.series]
    lines: list[Line] = [
        (trial.id, epoch.epoch, epoch.seconds, epoch.loss, epoch.accuracy)
        for trial in entry.raw.trials
        for epoch in trial.curve
    ]
    yield "curve", ("trial", *CURVE), lines
