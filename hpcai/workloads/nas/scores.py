"""Scores of a search from its raw measurements and earlier tests."""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from hpcai.formulas import aiperf
from hpcai.formulas.aiperf import Credit, ScorePoint
from hpcai.inputfile import Case
from hpcai.record.trial import ENDS, FAILED
from hpcai.results import gains
from hpcai.results.energy import joules_per_sample, mean_watts
from hpcai.results.measured import Before, Measured
from hpcai.results.physical_limits import training_bound
from hpcai.results.read_rates import read_rates
from hpcai.results.row import per_sample
from hpcai.results.scores import memory_share, parallel_computation, staging_rate
from hpcai.results.vendor_comparison import custom_speed
from hpcai.workloads.nas.credits import graphs, initial
from hpcai.workloads.nas.record import SearchRaw
from hpcai.workloads.nas.score_record import SearchScores, SearchShares


def training_time(raw: SearchRaw) -> float:
    """Seconds of the search, minus the validation of the group with the least validation."""
    return raw.seconds - raw.group_seconds.validation.min


def search_scores(
    case: Case, measured: Measured, rate: float, credited: int, credits: Sequence[Credit], before: Before
) -> SearchScores:
    """rate: FLOPS; credited: operations by rule `model`; credits: of all trials in the order of time, by `aiperf`."""
    raw: SearchRaw = measured.raw
    ends: Counter[str] = Counter(trial.end for trial in raw.trials)
    training, idle = raw.group_seconds.training.mean, raw.group_seconds.idle.mean
    points = _points(case, raw, credits)
    least = aiperf.least_seconds(raw.seconds)
    best, major = aiperf.highest(points, least), aiperf.highest_ops(points, least)
    reached = _reached(raw.target, credits)
    return SearchScores(
        flops=rate,
        ops=points[-1].ops,
        highest_ops=major.ops,
        highest_ops_seconds=major.seconds,
        apc=parallel_computation(case, per_sample(case, raw.dataset)),
        apc_hpcai500=parallel_computation(case, per_sample(case, raw.dataset, "hpcai500")),
        regulated_score=best.regulated_score,
        regulated_seconds=best.seconds,
        least_seconds=least,
        regulated_last=points[-1].regulated_score,
        interval=aiperf.interval(case["INTERVAL"], raw.seconds),
        training_operations=sum(credit.training for credit in credits),
        validation_operations=sum(credit.validation for credit in credits),
        quality=max((credit.accuracy for credit in credits), default=0.0),
        target=raw.target,
        reached=reached is not None,
        time_to_quality=reached.seconds if reached else None,
        operations_to_quality=reached.operations if reached else None,
        efficiency=gains.efficiency(case, rate, before.tests),
        ops_efficiency=gains.efficiency(case, points[-1].ops, before.tests, "ops"),
        training_rate=credited / training if training else None,
        samples_per_second=raw.work.samples / training_time(raw),
        **read_rates(case, raw.loading)._asdict(),
        idle_share=idle / raw.seconds,
        shares=_shares(raw),
        coordinator_share=raw.coordinator.busy_seconds / raw.seconds,
        series=tuple(points),
        ends={end: ends[end] for end in ENDS},
        failed_trials=sum(ends[end] for end in FAILED),
        precision_speed=gains.precision_speed(raw.probe),
        custom_speed=custom_speed(raw.vendor_comparison, None),
        memory_share=memory_share(measured.memory),
        staging_rate=staging_rate(raw.staging),
        mean_watts=mean_watts(raw.energy),
        joules_per_sample=joules_per_sample(raw.energy, raw.work.samples),
        rank_bound=training_bound(case, raw.processor, {initial(case, raw), *graphs(case, raw).values()}),
    )


def _points(case: Case, raw: SearchRaw, credits: Sequence[Credit]) -> list[ScorePoint]:
    """The score over time."""
    step = aiperf.interval(case["INTERVAL"], raw.seconds)
    returned = [trial.returned for trial in raw.trials if trial.end not in FAILED]
    return aiperf.series(credits, returned, raw.seconds, step, raw.dataset.validation_samples)


def _shares(raw: SearchRaw) -> SearchShares:
    seconds = raw.group_seconds
    return SearchShares(
        training=seconds.training.mean / raw.seconds,
        validation=seconds.validation.mean / raw.seconds,
        warmup=seconds.warmup.mean / raw.seconds,
        idle=seconds.idle.mean / raw.seconds,
    )


class _Reached(NamedTuple):
    """When a trial reached the target, and the operations of all trials until then."""

    seconds: float
    operations: int


def _reached(target: float, credits: Sequence[Credit]) -> _Reached | None:
    first = next((place for place, credit in enumerate(credits) if credit.accuracy >= target), None)
    if first is None:
        return None
    spent = sum(credit.training + credit.validation for credit in credits[: first + 1])
    return _Reached(credits[first].seconds, spent)
