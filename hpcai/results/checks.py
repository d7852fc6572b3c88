"""The checks of a test that trains: what was measured, held against its limit; PASSED, FAILED or NOT CHECKED."""

from collections.abc import Iterator

from hpcai.formulas import score
from hpcai.formulas.precision import PRECISIONS
from hpcai.inputfile import Case
from hpcai.record import check_declarations as declared
from hpcai.record.check_declarations import CheckDeclaration
from hpcai.record.dataset import Dataset
from hpcai.record.entry import Check, Operations
from hpcai.record.preflight import Residuals, VendorComparison
from hpcai.record.training import Replay, TrainingRaw
from hpcai.results import vendor_comparison
from hpcai.results.qualities import Qualities
from hpcai.results.row import graph_of
from hpcai.workloads.registry import quality_of
from hpcai.workloads.workload import Quality


def training_checks(case: Case, raw: TrainingRaw, operations: Operations, quality: Qualities) -> tuple[Check, ...]:
    """The checks of models that are trained and evaluated together, in the order in which they are printed."""
    before, work, of = raw.preparation, raw.work, quality_of(case.workload)
    return (
        *residuals(case, before.residuals),
        *compared(case, raw.dataset, before.vendor_comparison),
        declared.SUMS.of(before.wrong_sums),
        declared.SAME_WEIGHTS.of(work.differing_ranks),
        *replayed(raw.replay, declared.MODEL_SAMPLES),
        declared.FINITE.of(work.diverged_models),
        declared.EXECUTED.of(not_executed(operations)),
        declared.VALIDATED.of(work.validation_miscounted),
        leak(of, raw.dataset, of.best([quality.quality, quality.member_min, quality.member_max]), quality.evaluated),
        *disagreement(quality.disagreement),
    )


def residuals(case: Case, found: Residuals) -> Iterator[Check]:
    """The residuals of the products that the provider computes at the layer shapes."""
    rounded = PRECISIONS[case["PRECISION"]].rounded
    yield declared.RESIDUAL.of(found.scaled.value, case["RESIDUAL"])
    yield (declared.ROUNDED_ELEMENTWISE if rounded else declared.ELEMENTWISE).of(found.elementwise.value)
    if found.wrong is not None:
        yield declared.WRONG.of(found.wrong.value)


def compared(case: Case, dataset: Dataset, found: VendorComparison | None) -> Iterator[Check]:
    """Whether custom kernels train as the vendor's do; nothing where the vendor's train."""
    if found is None:
        return
    pixels = vendor_comparison.pixels(case, graph_of(case, dataset), found.statistics.where)
    yield declared.LOSS.of(vendor_comparison.loss_share(found))
    yield declared.GRADIENT.of(vendor_comparison.gradient_share(found.gradient, case["PRECISION"]))
    yield declared.STATISTICS.of(vendor_comparison.statistics_share(found.statistics, pixels))


def replayed(replay: Replay, samples: CheckDeclaration) -> Iterator[Check]:
    """The replayed steps, and the sums over the bits of all weights; `samples`: the check of models or of trials."""
    yield samples.of(replay.wrong_epochs)
    yield declared.DEVIATION.of(replay.deviation.value)
    yield declared.LOST.of(replay.lost.value)
    yield declared.CHANGED.of(replay.changed_ranks)


def not_executed(operations: Operations) -> float:
    """Difference of the operations that were claimed and those that were executed, in samples."""
    claimed = operations.credited + operations.skipped
    return abs(claimed - operations.executed) / operations.per_sample


def leak(of: Quality, dataset: Dataset, reached: float, evaluated: int) -> Check:
    """No quality is better than the ceiling but by chance: a model that is has seen the labels.

    `reached`: the best quality, a share of so many things that were `evaluated`.
    """
    if dataset.ceiling is None or dataset.ceiling_error is None:
        return declared.CEILING.not_checked()
    errors = score.above_ceiling(of, reached, dataset.ceiling, dataset.ceiling_error, evaluated)
    return declared.CEILING.of(errors)


def disagreement(share: float | None) -> Iterator[Check]:
    """Models that never disagree are one model; nothing where there is but one."""
    if share is not None:
        yield declared.DISAGREEMENT.of(share)
