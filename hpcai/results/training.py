"""Entry of a test that trains models together: row, checks, scores, status."""

from typing import Any, TypeVar

from hpcai.formulas import eligibility
from hpcai.formulas.official_rules import OfficialRules
from hpcai.formulas.precision import PRECISIONS
from hpcai.inputfile import Case
from hpcai.record.dataset import Dataset
from hpcai.record.entry import Operations
from hpcai.record.record import Verdict
from hpcai.record.training import StoppedTraining, TrainingRaw, TrainingRow
from hpcai.record.training_scores import TrainingScores
from hpcai.results.checks import training_checks
from hpcai.results.measured import Measured
from hpcai.results.qualities import Qualities
from hpcai.results.row import graph_of, operations, per_sample, row, verdict

Entry = TypeVar("Entry", bound=TrainingRow)


def training_operations(case: Case, raw: TrainingRaw) -> Operations:
    """Operations of all models of a test."""
    work = raw.work
    return operations(case, raw.dataset, work.samples, work.skipped_samples, work.executed_operations)


def credited(case: Case, stopped: StoppedTraining) -> int:
    """Operations that were credited before the run was broken off."""
    return per_sample(case, stopped.dataset) * stopped.samples


def training_row(
    kind: type[Entry],
    case: Case,
    measured: Measured,
    counted: Operations,
    quality: Qualities,
    scores: TrainingScores,
    rules: OfficialRules | None,
) -> Entry:
    """The entry of a test; `rules` are the workload's official rules, None if it has none."""
    raw: TrainingRaw = measured.raw
    checks = training_checks(case, raw, counted, quality, scores)
    passed = verdict(checks)
    return row(
        kind,
        case,
        measured,
        n=raw.work.samples,
        nb=case.batch,
        seconds=raw.phases.training,
        operations=counted,
        checks=checks,
        scores=scores,
        eligible=official(case, raw, passed, rules) if rules else eligibility.without_rules(passed == "PASSED"),
        phases=raw.phases,
    )


def dataset_facts(case: Case, dataset: Dataset) -> dict[str, Any]:
    """Facts on data and network, by which the eligibility of any training is judged."""
    graph = graph_of(case, dataset)
    return {
        "dataset": dataset.name,
        "original": case.samples == 0,
        "samples": dataset.training_samples,
        "validation": dataset.validation_samples,
        "classes": dataset.classes,
        "resolution": graph.shapes[graph.layers[0].name][1:],
        "network": case.network,
        "variant": case.variant,
    }


def official(case: Case, raw: TrainingRaw, passed: Verdict, rules: OfficialRules) -> eligibility.Eligibility:
    """Eligibility of a test."""
    return eligibility.official(
        {
            **dataset_facts(case, raw.dataset),
            "epochs": case.epochs,
            "target": raw.target,
            "penalty": case.penalty,
            "bits": PRECISIONS[case.precision].bits,
            "passed": passed == "PASSED",
            "completed": True,
        },
        rules,
    )
