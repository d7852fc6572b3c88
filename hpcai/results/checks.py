"""The checks of a test that trains: what was measured, held against its limit; PASSED, FAILED or NOT CHECKED."""

from collections.abc import Iterator

from hpcai.formulas import score
from hpcai.formulas.precision import PRECISIONS
from hpcai.inputfile import Case
from hpcai.record.dataset import Dataset
from hpcai.record.entry import Check, Operations
from hpcai.record.preflight import Residuals, VendorComparison
from hpcai.record.training import Replay, TrainingRaw
from hpcai.results import vendor_comparison
from hpcai.results.qualities import Qualities
from hpcai.results.row import graph_of
from hpcai.workloads.registry import quality_of
from hpcai.workloads.workload import Quality

RESIDUAL = "||Ax-b||_oo/(eps*(||A||_oo*||x||_oo+||b||_oo)*N)"
ELEMENTWISE = (
    "max|C-L*R|/(8*sqrt(N)*u*sqrt((LoL)*(RoR)))",
    "max|C-LR|/(8*sqrt(N)*u*sqrt((LoL)(RoR))+v*|LR|)",  # of results that are stored in 16 bits
)
WRONG = "forward products of int8: wrong elements"
LOSS = "loss deviation from vendor / rounding bound"
GRADIENT = "gradient deviation from vendor / bound"
STATISTICS = "statistics deviation from vendor / bound"
DEVIATION = "replayed steps: worst deviation of the update"
LOST = "replayed steps: largest share of a term lost"
CHANGED = "weights changed outside of steps: ranks"
DISAGREEMENT = "pairwise disagreement of models, not 0"
TERM_LOST = 0.25  # of a term of the update: half of one rank's gradient is found, as is a zeroed layer

CEILING = "quality above the ceiling: standard errors"
MOST_ABOVE = 5  # standard errors


def training_checks(case: Case, raw: TrainingRaw, operations: Operations, quality: Qualities) -> tuple[Check, ...]:
    """The checks of models that are trained and evaluated together, in the order in which they are printed."""
    before, work, of = raw.preparation, raw.work, quality_of(case.workload)
    return (
        *residuals(case, before.residuals),
        *compared(case, raw.dataset, before.vendor_comparison),
        at_most("all-reduce of integers: wrong elements", before.wrong_sums, 0),
        at_most("parameters and statistics: differing ranks", work.differing_ranks, 0),
        *replayed(raw.replay, "models"),
        at_most("loss not finite: models", work.diverged_models, 0),
        at_most("operations credited, not executed: samples", not_executed(operations), 0),
        at_most("validation samples not evaluated exactly once", work.validation_miscounted, 0),
        leak(of, raw.dataset, of.best([quality.quality, quality.member_min, quality.member_max]), quality.evaluated),
        *disagreement(quality.disagreement),
    )


def residuals(case: Case, found: Residuals) -> Iterator[Check]:
    """The residuals of the products that the provider computes at the layer shapes."""
    yield at_most(RESIDUAL, found.scaled.value, case["RESIDUAL"])
    yield at_most(ELEMENTWISE[PRECISIONS[case["PRECISION"]].rounded], found.elementwise.value, 1)
    if found.wrong is not None:
        yield at_most(WRONG, found.wrong.value, 0)


def compared(case: Case, dataset: Dataset, found: VendorComparison | None) -> Iterator[Check]:
    """Whether custom kernels train as the vendor's do; nothing where the vendor's train."""
    if found is None:
        return
    pixels = vendor_comparison.pixels(case, graph_of(case, dataset), found.statistics.where)
    yield at_most(LOSS, vendor_comparison.loss_share(found), 1)
    yield at_most(GRADIENT, vendor_comparison.gradient_share(found.gradient, case["PRECISION"]), 1)
    yield at_most(STATISTICS, vendor_comparison.statistics_share(found.statistics, pixels), 1)


def replayed(replay: Replay, of: str) -> Iterator[Check]:
    """The replayed steps, and the sums over the bits of all weights, of models or trials."""
    yield at_most(f"training samples other than the epoch's: {of}", replay.wrong_epochs, 0)
    yield at_most(DEVIATION, replay.deviation.value, 1)
    yield at_most(LOST, replay.lost.value, TERM_LOST)
    yield at_most(CHANGED, replay.changed_ranks, 0)


def not_executed(operations: Operations) -> float:
    """Difference of the operations that were claimed and those that were executed, in samples."""
    claimed = operations.credited + operations.skipped
    return abs(claimed - operations.executed) / operations.per_sample


def leak(of: Quality, dataset: Dataset, reached: float, evaluated: int) -> Check:
    """No quality is better than the ceiling but by chance: a model that is has seen the labels.

    `reached`: the best quality, a share of so many things that were `evaluated`.
    """
    if dataset.ceiling is None or dataset.ceiling_error is None:
        return Check(name=CEILING, value=None, limit=MOST_ABOVE, verdict="NOT CHECKED")
    errors = score.above_ceiling(of, reached, dataset.ceiling, dataset.ceiling_error, evaluated)
    return at_most(CEILING, errors, MOST_ABOVE)


def disagreement(share: float | None) -> Iterator[Check]:
    """Models that never disagree are one model; nothing where there is but one."""
    if share is not None:
        yield Check(name=DISAGREEMENT, value=share, limit=0, verdict="PASSED" if share > 0 else "FAILED")


def at_most(name: str, value: float, limit: float) -> Check:
    """A check that is PASSED if its value does not exceed its limit; a NaN never passes."""
    return Check(name=name, value=value, limit=limit, verdict="PASSED" if value <= limit else "FAILED")
