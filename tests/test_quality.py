"""The direction of a quality, honoured in every comparison: with a target, a ceiling, another quality."""

import math

import pytest

from hpcai.formulas import score
from hpcai.record.check_declarations import CEILING
from hpcai.record.dataset import Dataset, ImageValidation
from hpcai.results.checks import leak
from hpcai.results.reached import first_reaching
from hpcai.workloads.registry import quality_of, workloads
from hpcai.workloads.workload import MOST_OF_TARGET, Quality, Workload

TOP_1 = Quality("top-1")
ERROR = Quality("error", larger_is_better=False)
LOSS = Quality("loss", larger_is_better=False, highest=math.inf)


def curve_of(*counts: int) -> list[ImageValidation]:
    return [
        ImageValidation(epoch=epoch, seconds=float(epoch), loss=1.0, counted=10, fingerprint=1, correct=correct)
        for epoch, correct in enumerate(counts, 1)
    ]


def test_a_share_of_the_target_of_at_least_1_is_reached() -> None:
    for of in (TOP_1, ERROR, LOSS):
        for quality, target in ((0.5, 0.4), (0.4, 0.5), (0.4, 0.4)):
            assert of.reached(quality, target) == (of.share_of_target(quality, target) >= 1)
    assert TOP_1.share_of_target(0.6, 0.8) == pytest.approx(0.75) == ERROR.share_of_target(0.8, 0.6)


def test_a_share_is_finite_if_nothing_is_wrong() -> None:
    assert ERROR.share_of_target(0.0, 0.1) == LOSS.share_of_target(1e-300, 1.0) == MOST_OF_TARGET
    assert math.isfinite(score.valid_flops(1e21, MOST_OF_TARGET, 20))


def test_the_best_of_some_values_follows_the_direction() -> None:
    assert (TOP_1.best([0.1, 0.3]), ERROR.best([0.1, 0.3])) == (0.3, 0.1)


def test_the_first_validation_that_reaches_the_target_is_found() -> None:
    curve = curve_of(6, 8, 9, 7)
    assert first_reaching(TOP_1, curve, 10, 0.8) is curve[1]
    assert first_reaching(TOP_1, curve, 10, 0.81) is curve[2]
    assert first_reaching(TOP_1, curve, 10, 0.91) is None
    assert first_reaching(TOP_1, [], 10, 0.1) is None
    assert first_reaching(ERROR, curve, 10, 0.65) is curve[0]
    assert first_reaching(ERROR, curve_of(9, 7, 6), 10, 0.7) is not None
    assert first_reaching(ERROR, curve, 10, 0.5) is None


def dataset(ceiling: float) -> Dataset:
    return Dataset(
        name="generated",
        fingerprint="0" * 64,
        shape=(1, 8, 8),
        classes=2,
        training_samples=10,
        validation_samples=1600,
        ceiling=ceiling,
        ceiling_error=0.01,
    )


@pytest.mark.parametrize(("of", "reached"), [(TOP_1, 0.95), (ERROR, 0.65), (LOSS, 0.74)])
def test_a_quality_better_than_the_ceiling_fails(of: Quality, reached: float) -> None:
    better, worse = leak(of, dataset(0.8), reached, 1600), leak(of, dataset(0.8), 1.6 - reached, 1600)
    assert (better.name, better.verdict, worse.verdict, worse.value) == (CEILING.name, "FAILED", "PASSED", 0.0)


def test_a_loss_has_the_error_of_its_ceiling_alone() -> None:
    assert score.above_ceiling(LOSS, 0.74, 0.8, 0.01, 1600) == pytest.approx(6.0)
    assert score.above_ceiling(ERROR, 0.7, 0.8, 0.0, 1600) == pytest.approx(10.0)
    assert score.above_ceiling(LOSS, 2.4, 2.5, 0.05, 1600) == pytest.approx(2.0)


def test_rows_ranked_by_a_quality_are_ranked_by_its_direction() -> None:
    section = workloads()[0].section
    by_loss = Workload(section, quality=LOSS, ranked_by="quality")
    assert max([2.0, 1.0], key=by_loss.rank) == 1.0
    assert max([2.0, 1.0], key=Workload(section, quality=LOSS, ranked_by="valid_flops").rank) == 2.0
    assert max([2.0, 1.0], key=Workload(section, quality=TOP_1, ranked_by="quality").rank) == 2.0


def test_every_workload_with_rows_has_a_quality() -> None:
    assert {each.name for each in workloads() if each.quality} == {each.name for each in workloads() if each.digit}
    with pytest.raises(AssertionError, match="a workload with rows"):
        quality_of("kernels")
