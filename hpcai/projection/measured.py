"""Trainings as measured, in the terms of the model."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import ceil
from pathlib import Path

from hpcai.data.order import Shard
from hpcai.errors import InputError
from hpcai.formulas.extremes import deviation_from_quantiles, deviation_from_range
from hpcai.formulas.roofline import moved_in_all_reduce
from hpcai.gradients.wires import WIRES
from hpcai.inputfile import Case
from hpcai.projection.gradients import profile
from hpcai.projection.links import Timing, timings
from hpcai.projection.model import Phases, Training
from hpcai.record.result import Result
from hpcai.record.training import TrainingRaw, TrainingRow
from hpcai.results.comparable import facts_of
from hpcai.results.gains import GRID
from hpcai.results.row import graph_of
from hpcai.verification.verified import verified_once
from hpcai.verification.verify import cases_of

MACHINE = ("processor", "device")  # in which results of one projection agree


@dataclass(frozen=True)
class Observation:
    """A PASSED training of a verified result. run: number of its result; nodes: of its job.

    busy: mean seconds that a rank computed in a full step; sent: bytes that it had to send in one. spread: standard
    deviation of a step; ranks_spread: of the ranks' means, as a share; None of one rank. data: wait in a step.
    """

    run: int
    name: str
    family: tuple[tuple[str, object], ...]
    training: Training
    by: str
    p: int
    q: int
    nodes: int
    ranks_per_node: int
    seconds: float
    flops: float
    busy: float
    sent: float
    spread: float
    ranks_spread: float | None
    data: float
    phases: Phases

    @property
    def ranks(self) -> int:
        """All ranks."""
        return self.p * self.q


@dataclass(frozen=True)
class Measured:
    """Trainings of one family, and the all-reduces of all results by the number of the result."""

    observations: tuple[Observation, ...]
    timings: tuple[tuple[int, Timing], ...]


def families(paths: Sequence[Path]) -> list[Measured]:
    """The trainings of verified results, by what differs in more than the process grid; InputError if there is none."""
    results = [result for _, result in verified_once(paths)]
    agree(results)
    found = [each for run, result in enumerate(results) for each in _observations(run, result)]
    tables = tuple((run, timing) for run, result in enumerate(results) for timing in timings(result))
    if not found:
        names = ", ".join(map(str, paths))
        raise InputError(f"no training in {names}; allowed: PASSED tests that train models with PARALLEL data")
    kinds = list(dict.fromkeys(each.family for each in found))
    return [Measured(tuple(each for each in found if each.family == kind), tables) for kind in kinds]


def agree(results: Sequence[Result]) -> None:
    """InputError that names the first fact in which the machines of results differ."""
    for name in MACHINE:
        values = list(dict.fromkeys(str(getattr(result.environment, name)) for result in results))
        if len(values) > 1:
            raise InputError(f"results of several machines: {name} {' and '.join(values)}; allowed: of one")


def _observations(run: int, result: Result) -> Iterator[Observation]:
    cases = {case.index: case for case in cases_of(result)}
    for row in result.tests:
        if isinstance(row, TrainingRow) and row.verdict == "PASSED" and not row.raw.lost_groups:
            case = cases[row.index]
            if case.parallel == "data":
                yield _observation(run, result, case, row)


def _observation(run: int, result: Result, case: Case, row: TrainingRow) -> Observation:
    raw, nodes, ranks = row.raw, result.environment.nodes, row.p * row.q
    training = _training(case, row)
    shard = Shard(raw.dataset.training_samples, 0, row.q, row.nb)
    steps, busy = case.epochs * shard.steps, raw.busy_seconds
    width = (busy.max - busy.min) / busy.mean if busy.mean else 0.0
    return Observation(
        run=run,
        name=_name(case, raw, training),
        family=tuple((key, str(value)) for key, value in facts_of(row, (*GRID, "SPLIT"))),
        training=training,
        by=raw.all_reduce.by if raw.all_reduce else "",
        p=row.p,
        q=row.q,
        nodes=nodes,
        ranks_per_node=ceil(result.environment.ranks / nodes),
        seconds=row.seconds,
        flops=row.scores.flops,
        busy=busy.mean / (case.epochs * shard.samples / row.nb),
        sent=moved_in_all_reduce(training.element * training.profile.elements, row.q),
        spread=deviation_from_quantiles(max(0.0, raw.step_seconds.p95 - raw.step_seconds.median), row.q),
        ranks_spread=deviation_from_range(width, ranks) if ranks > 1 else None,
        data=raw.waiting_seconds.data / steps,
        phases=_phases(raw, training, row),
    )


def _training(case: Case, row: TrainingRow) -> Training:
    raw = row.raw
    return Training(
        profile=profile(graph_of(case, raw.dataset)),
        operations=row.operations.per_sample,
        batch=row.nb,
        samples=raw.dataset.training_samples,
        epochs=case.epochs,
        element=WIRES[case.wire].nbytes,
        algorithm=raw.all_reduce.algorithm if raw.all_reduce else "flat",
        classes=raw.dataset.classes,
        validation_samples=raw.dataset.validation_samples,
        passes=raw.work.validation_passes // row.p,
        valid=row.scores.valid_flops / row.scores.flops if row.scores.flops else None,
    )


def _phases(raw: TrainingRaw, training: Training, row: TrainingRow) -> Phases:
    each = ceil(training.validation_samples / row.q)
    bag = ceil(training.samples / row.q) * (row.p > 1)
    copied = raw.staging
    return Phases(
        validation=raw.phases.validation / (training.passes * each) if training.passes else 0.0,
        ensemble=raw.phases.ensemble / (each + bag),
        staging=copied.seconds if copied else 0.0,
        node_bytes=copied.bytes / copied.nodes if copied else 0.0,
    )


def _name(case: Case, raw: TrainingRaw, training: Training) -> str:
    kind = f"{case.workload} {case.network} {raw.dataset.name} NB {training.batch} {case.precision}"
    return f"{kind} wire {case.wire} kernels {case.kernels}"
