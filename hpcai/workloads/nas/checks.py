"""Entry of a search from its raw measurements: checks, scores, trials, status. Failed trials fail no check."""

from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import pairwise

from hpcai.formulas import eligibility, score
from hpcai.formulas.official_rules import SEARCHES
from hpcai.formulas.precision import PRECISIONS
from hpcai.formulas.sample_fingerprint import expected_fingerprint
from hpcai.formulas.trial_schedule import number
from hpcai.inputfile import Case
from hpcai.record import check_declarations as declared
from hpcai.record.check_declarations import CheckDeclaration
from hpcai.record.entry import Check
from hpcai.record.record import Verdict
from hpcai.record.trial import CurveEntry, Trial
from hpcai.results.checks import (
    accounted,
    compared,
    delivered,
    evaluated,
    leak,
    network,
    recounted,
    replayed,
    residuals,
)
from hpcai.results.measured import Before, Measured
from hpcai.results.physical_limits import within_bound
from hpcai.results.row import row, verdict
from hpcai.results.training import dataset_facts
from hpcai.workloads.nas import QUALITY
from hpcai.workloads.nas.credits import SampleOperations, counted, credited, credits_of, operations
from hpcai.workloads.nas.record import SearchRaw, SearchRow, TrialRow
from hpcai.workloads.nas.score_record import SearchScores
from hpcai.workloads.nas.scores import search_scores, training_time

__all__ = ["RULES", "build", "credited"]

RULES = SEARCHES

PRESERVATION = CheckDeclaration(
    "max|child(x)-parent(x)|/(1e-10*max|parent(x)|)",
    "difference of outputs of a trial's network with inherited weights and its parent's, in float64; the largest",
    limit=1.0,
)
LOST_OR_DOUBLED = CheckDeclaration(
    "trials lost or doubled",
    "|trials granted - recorded| + ids that occur twice + ids other than (round - 1) x P + group + 1",
)
TIMES = CheckDeclaration(
    "trials: times out of order",
    "times that go back from given to started, validations and returned; 0.1 s allowed between clocks of ranks",
)
SEARCH_CHECKS = (declared.TRIAL_SAMPLES, PRESERVATION, LOST_OR_DOUBLED, TIMES)  # further ones are those of trainings
PRESERVED = 1e-10  # relative rounding difference of equal functions, in float64
SKEW = 0.1  # seconds by which the clocks of two ranks may differ, which start after a barrier


def build(case: Case, measured: Measured, before: Before) -> SearchRow:
    """The entry of a search; InputError where the morphisms of a trial do not fit its parent's network."""
    raw: SearchRaw = measured.raw
    each = counted(case, raw)
    counts = operations(case, raw, each)
    seconds = training_time(raw)
    rate = score.flops(counts.credited, seconds)
    credits = credits_of(raw.trials, each)
    scores = search_scores(case, measured, rate, counts.credited, credits, before)
    found = search_checks(case, raw, {key: count.model for key, count in each.items()}, counts.per_sample)
    checks = (*found, *within_bound(_rate_of_rank(case, scores), scores.rank_bound, raw.processor))
    return row(
        SearchRow,
        case,
        measured,
        n=raw.work.samples,
        nb=case.batch,
        seconds=seconds,
        operations=counts,
        checks=checks,
        scores=scores,
        eligible=official(case, raw, scores, verdict(checks)),
        phases=raw.phases,
        trials=tuple(_trial(trial, each[trial.id]) for trial in raw.trials),
    )


def _rate_of_rank(case: Case, scores: SearchScores) -> float:
    """FLOPS of a rank over the search, or while it trains if that is more."""
    return max(scores.flops, scores.training_rate or 0.0) / (case.credited_groups * case.degree)


def _trial(trial: Trial, each: SampleOperations) -> TrialRow:
    """A line of the table of trials; its operations are those of training and validation by rule `aiperf`."""
    credits = credits_of([trial], {trial.id: each})
    return TrialRow(
        id=trial.id,
        worker=trial.worker,
        round=trial.round,
        parent=trial.parent,
        operation=trial.operation,
        hyperparameters=trial.hyperparameters,
        accuracy=trial.accuracy,
        ops=sum(credit.training + credit.validation for credit in credits),
        given=trial.given,
        started=trial.started,
        returned=trial.returned,
        verdict=trial.end,
    )


def search_checks(case: Case, raw: SearchRaw, model: Mapping[int, int], initial: int) -> Iterator[Check]:
    """`model`: operations of a training sample in each trial's network by rule `model`; `initial`: in the first one."""
    dataset = raw.dataset
    deviation = max([raw.largest_deviation, *(trial.deviation for trial in raw.trials)])
    correct = [entry.correct for entry in _entries(raw) if entry.correct is not None]
    yield from residuals(case, raw.residuals)
    yield from compared(case, dataset, raw.vendor_comparison)
    yield from network(raw.network_check)
    yield declared.SUMS.of(raw.wrong_sums)
    yield declared.SAME_WEIGHTS.of(raw.work.differing_ranks)
    yield from replayed(raw.replay, declared.TRIAL_SAMPLES)
    yield from delivered(raw.delivered)
    yield PRESERVATION.of(min(deviation / PRESERVED, score.LARGEST))
    yield declared.EXECUTED.of(_not_executed(raw, model, initial))
    yield LOST_OR_DOUBLED.of(lost_or_doubled(case, raw))
    yield TIMES.of(sum(map(_disorder, raw.trials)))
    yield declared.VALIDATED.of(_miscounted(raw))
    yield from evaluated(raw.evaluation_deviation)
    yield from recounted(raw.delivered)
    yield from accounted(raw.accounting)
    yield leak(QUALITY, dataset, max(correct, default=0) / dataset.validation_samples, dataset.validation_samples)


def _not_executed(raw: SearchRaw, model: Mapping[int, int], initial: int) -> float:
    """Operations credited but not executed or the reverse, by trial and in total; in samples."""
    executed = sum(trial.executed_operations for trial in raw.trials)
    apart = (
        abs((trial.samples + trial.skipped) * model[trial.id] - trial.executed_operations) / model[trial.id]
        for trial in raw.trials
    )
    return sum(apart) + abs(executed - raw.work.executed_operations) / initial


def lost_or_doubled(case: Case, raw: SearchRaw) -> int:
    """Trials granted but not recorded or the reverse, and duplicate or unknown numbers."""
    numbers = Counter(trial.id for trial in raw.trials)
    doubled = len(raw.trials) - len(numbers)
    strange = sum(
        trial.id != number(trial.round, trial.worker, case.planned_groups) or trial.worker >= case.planned_groups
        for trial in raw.trials
    )
    return abs(raw.granted - len(raw.trials)) + doubled + strange


def _disorder(trial: Trial) -> int:
    """Number of decreasing times from given to started, along the curve, and to returned."""
    own = [trial.started, *(entry.seconds for entry in trial.curve)]  # on the clock of the group's leader
    ahead = sum(later < earlier for earlier, later in pairwise(own))
    between = (trial.given, trial.started), (own[-1], trial.returned), (trial.given, trial.returned)
    return ahead + sum(later < earlier - SKEW for earlier, later in between)


def _miscounted(raw: SearchRaw) -> int:
    """Validation samples evaluated too often or not at all; one more for each wrong fingerprint."""
    samples = raw.dataset.validation_samples
    expected = expected_fingerprint(samples)
    return sum(_wrong(entry, samples, expected) for entry in _entries(raw))


def _entries(raw: SearchRaw) -> Iterator[CurveEntry]:
    return (entry for trial in raw.trials for entry in trial.curve)


def _wrong(entry: CurveEntry, samples: int, expected: int) -> int:
    if entry.correct is None:  # the search ended during the epoch: no validation
        return entry.counted + (entry.fingerprint != 0)
    return abs(entry.counted - samples) + (entry.fingerprint != expected)


def official(case: Case, raw: SearchRaw, scores: SearchScores, passed: Verdict) -> eligibility.Eligibility:
    """Eligibility of a search."""
    return eligibility.search_eligibility(
        {
            **dataset_facts(case, raw.dataset),
            "epochs": case.epochs,
            "strategy": case["STRATEGY"],
            "weights": case["INITIAL"],
            "replay": case["REPLAY"],
            "seconds": raw.seconds,
            "error": 1 - scores.quality,
            "bits": PRECISIONS[case.precision].bits,
            "passed": passed == "PASSED",
            "completed": True,
        }
    )
