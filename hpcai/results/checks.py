"""Checks of a test that trains: measured value and limit; PASSED, FAILED or NOT CHECKED."""

from collections.abc import Iterator

from hpcai.formulas import score
from hpcai.formulas.clocks import unaccounted
from hpcai.formulas.precision import PRECISIONS
from hpcai.inputfile import Case
from hpcai.record import check_declarations as declared
from hpcai.record.check_declarations import CheckDeclaration
from hpcai.record.content import Delivered
from hpcai.record.dataset import Dataset
from hpcai.record.entry import Check, Operations
from hpcai.record.preflight import NetworkCheck, Residuals, VendorComparison
from hpcai.record.training import Replay, TrainingRaw
from hpcai.record.training_scores import TrainingScores
from hpcai.record.wall_time import Accounting
from hpcai.results import vendor_comparison
from hpcai.results.physical_limits import within_bound
from hpcai.results.qualities import Qualities
from hpcai.results.row import graph_of
from hpcai.workloads.registry import quality_of
from hpcai.workloads.workload import Quality


def training_checks(
    case: Case, raw: TrainingRaw, operations: Operations, quality: Qualities, scores: TrainingScores
) -> tuple[Check, ...]:
    """The checks of models trained and evaluated together, in printed order."""
    before, work, of = raw.preparation, raw.work, quality_of(case.workload)
    return (
        *residuals(case, before.residuals),
        *compared(case, raw.dataset, before.vendor_comparison),
        *network(before.network_check),
        declared.SUMS.of(before.wrong_sums),
        declared.SAME_WEIGHTS.of(work.differing_ranks),
        *replayed(raw.replay, declared.MODEL_SAMPLES),
        *delivered(raw.delivered),
        declared.FINITE.of(work.diverged_models),
        declared.EXECUTED.of(not_executed(operations)),
        declared.VALIDATED.of(work.validation_miscounted),
        *evaluated(raw.evaluation_deviation),
        *recounted(raw.delivered, quality.unconfirmed),
        of_ceiling(of, raw.dataset, quality),
        *apart(raw.replay, quality.disagreement),
        *within_bound(scores.flops / (case.groups * case.degree), scores.rank_bound, before.processor),
        *accounted(raw.accounting),
    )


def residuals(case: Case, found: Residuals) -> Iterator[Check]:
    """Checks of the residuals of the provider's products at the layer shapes."""
    rounded = PRECISIONS[case.precision].rounded
    yield declared.RESIDUAL.of(found.scaled.value, case.residual)
    yield (declared.ROUNDED_ELEMENTWISE if rounded else declared.ELEMENTWISE).of(found.elementwise.value)
    if found.wrong is not None:
        yield declared.WRONG.of(found.wrong.value)


def compared(case: Case, dataset: Dataset, found: VendorComparison | None) -> Iterator[Check]:
    """Check of the vendor comparison; none where the vendor's kernels train."""
    if found is None:
        return
    yield declared.LOSS.of(vendor_comparison.loss_share(found))
    yield declared.GRADIENT.of(vendor_comparison.gradient_share(found.gradient, case.precision))
    if found.statistics is not None:
        pixels = vendor_comparison.pixels(case, graph_of(case, dataset), found.statistics.where)
        yield declared.STATISTICS.of(vendor_comparison.statistics_share(found.statistics, pixels))


def network(found: NetworkCheck | None) -> Iterator[Check]:
    """Checks of the network before its first step; none in older results."""
    if found is not None:
        outputs = found.outputs
        yield declared.NETWORK.not_checked() if outputs is None else declared.NETWORK.of(outputs.value)
        yield declared.WEIGHTS.of(found.weights.value)


def evaluated(deviation: float | None) -> Iterator[Check]:
    """Check of the evaluation of classifiers; none of detectors, and in older results."""
    if deviation is not None:
        yield declared.EVALUATED.of(deviation)


def recounted(found: Delivered | None, unconfirmed: int = 0) -> Iterator[Check]:
    """Check of the counts of predictions; none of detectors, and in older results.

    unconfirmed: figures of an ensemble that a second implementation counts otherwise.
    """
    if found is not None and found.recounted_validations and found.miscounted_validations is not None:
        yield declared.RECOUNTED.of(found.miscounted_validations + unconfirmed)


def accounted(found: Accounting | None) -> Iterator[Check]:
    """Check that phases and the time between them add up to the wall time; none in older results."""
    if found is not None:
        yield declared.ACCOUNTED.of(unaccounted(found.phases + found.between, found.wall))


def replayed(replay: Replay, samples: CheckDeclaration) -> Iterator[Check]:
    """Checks beside the trainings of models or trials; older results lack some."""
    yield samples.of(replay.wrong_epochs)
    yield declared.DEVIATION.of(replay.deviation.value)
    yield declared.LOST.of(replay.lost.value)
    yield declared.CHANGED.of(replay.changed_ranks)
    values = replay.stale, replay.still, replay.outside, replay.clocks, replay.others
    for declaration, value in zip(declared.BESIDE, values, strict=True):
        if value is not None:
            yield declaration.of(value)


def delivered(found: Delivered | None) -> Iterator[Check]:
    """Checks of what arrived at the networks; none of older results."""
    if found is None:
        return
    data = found.data
    yield declared.RECIPE.of(found.recipe.value)
    yield declared.ORDER.of(found.misplaced)
    yield declared.DELIVERED.of(found.deviation.value) if found.samples else declared.DELIVERED.not_checked()
    yield declared.SEEN.of(found.differing_validations)
    yield _counted(declared.PUBLISHED, data.unknown_splits)
    yield _counted(declared.SHARED, None if data.shared is None else max(0, data.shared - data.shared_allowed))


def _counted(check: CheckDeclaration, number: int | None) -> Check:
    return check.not_checked() if number is None else check.of(number)


def not_executed(operations: Operations) -> float:
    """Credited minus executed operations, in samples."""
    claimed = operations.credited + operations.skipped
    return abs(claimed - operations.executed) / operations.per_sample


def of_ceiling(of: Quality, dataset: Dataset, found: Qualities) -> Check:
    """Check of the qualities of the models and the ensemble."""
    if found.beyond is not None:
        return declared.CEILING.of(found.beyond)
    return leak(of, dataset, of.best([found.quality, found.member_min, found.member_max]), found.evaluated)


def leak(of: Quality, dataset: Dataset, reached: float, evaluated: int) -> Check:
    """Check that no quality exceeds the ceiling by more than chance: such a model has seen the labels.

    `reached`: the best quality, a share of `evaluated` things.
    """
    if dataset.ceiling is None or dataset.ceiling_error is None:
        return declared.CEILING.not_checked()
    errors = score.above_ceiling(of, reached, dataset.ceiling, dataset.ceiling_error, evaluated)
    return declared.CEILING.of(errors)


def apart(replay: Replay, disagreement: float | None) -> Iterator[Check]:
    """Check that models differ, in older results by what they say; none with one model."""
    if replay.repeated is not None:
        yield declared.REPEATED.of(replay.repeated)
    elif disagreement is not None:
        yield declared.DISAGREEMENT.of(disagreement)
