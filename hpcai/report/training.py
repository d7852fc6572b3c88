"""Printed block of tests that train models together: scores, memory, times, notes."""

from collections.abc import Iterator, Sequence

from hpcai.record.dataset import Validation
from hpcai.record.training import BusySeconds, Execution, Preparation, TrainingRaw, TrainingRow
from hpcai.report import energy, memory, roofline, telemetry
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
    stage_notes,
)
from hpcai.report.series import CURVE, Table
from hpcai.report.text import free, printed, with_reasons
from hpcai.results.gradient_cost import sent_by_all


def training_block(test: TrainingRow, covered: str, further: Iterator[str] | None = None) -> str:
    """One test: HPL's header and row, a line per check and per score, then notes.

    covered: what the fingerprint of generated data covers. further: lines of the workload's own scores.
    """
    lines = [*check_lines(test), *labelled(test.scores), *(further or ()), *_measured(test), *_notes(test, covered), ""]
    return head(test) + printed(lines)


def _measured(test: TrainingRow) -> Iterator[str]:
    raw = test.raw
    yield from memory.lines(test.memory)
    yield from telemetry.lines(test.telemetry, test.memory.accelerated)
    yield from energy.lines(raw.energy)
    for record in (raw.step_seconds, raw.busy_seconds, test.phases, *filter(None, [test.wall])):
        yield from labelled(record)


def _notes(test: TrainingRow, covered: str) -> Iterator[str]:
    raw = test.raw
    before = raw.preparation
    yield from lost_note("Models", raw.lost_groups, test.p)
    yield from data_notes(test.workload, raw.dataset, before.sharding, raw.staging, covered)
    yield network_note(test, raw.dataset)
    yield f"Executed: {_execution(raw.execution)}"
    yield precision_note(str(test.settings["PRECISION"]), before.probe)
    yield _steps(raw, before)
    yield from all_reduce_note(raw.all_reduce)
    yield from sent_note(raw.sent)
    yield from stage_notes(raw.pipeline)
    yield from telemetry.traffic_note(test.telemetry, sent_by_all(raw.sent, raw.work.steps, test.q))
    yield from residual_notes(before.residuals)
    yield from network_notes(before.network_check)
    yield from kernels_notes(raw.site_kernels, before.vendor_comparison)
    yield from replay_notes(raw.replay)
    yield from accounting_notes(raw.accounting)
    yield _slowest(raw, raw.busy_seconds)
    yield from memory.notes(test.memory)
    yield telemetry.note(test.telemetry)
    yield energy.note(raw.energy)
    yield from roofline.notes(test.scores.roofline, test.q == 1)
    yield with_reasons(f"Status  : {test.status}", test.reasons)


def _steps(raw: TrainingRaw, before: Preparation) -> str:
    work = raw.work
    skipped = f", {work.skipped_steps} skipped after overflow with {work.skipped_samples} samples"
    return (
        f"Steps   : {work.steps} in all{skipped if work.skipped_steps else ''}, "
        f"{raw.models.steps_min} to {raw.models.steps_max} a model, "
        f"{before.warmup_steps} warm-up steps discarded, backend {raw.backend}, "
        f"buckets of gradients: {raw.execution.buckets}"
    )


def _slowest(raw: TrainingRaw, busy: BusySeconds) -> str:
    """Note on the slowest rank, and on the rank of the step times."""
    return (
        f"Slowest : rank {busy.slowest_rank} on {free(busy.slowest_host)}, busy for {busy.max:.3f} of "
        f"{raw.phases.training:.3f} s; step times: {raw.step_seconds.count} steps of the rank with the "
        "largest median"
    )


def _execution(execution: Execution) -> str:
    """Note on the execution of the network and its compilation."""
    text = str(execution.by)
    if execution.graphs:
        text += (
            f", {execution.graphs} graphs made in {execution.compile_seconds:.1f} s before the clock started, "
            f"{execution.late_graphs} after"
        )
    if execution.trials:
        text += "; tried: " + ", ".join(f"{name} {seconds:.4f} s" for name, seconds in execution.trials.items())
    return text


def training_series(curve: Sequence[Validation], samples: int) -> Iterator[Table]:
    """The validations of the first model as a table of series.h5; `samples` of the validation set."""
    yield "curve", CURVE, [(each.epoch, each.seconds, each.loss, each.quality(samples)) for each in curve]
