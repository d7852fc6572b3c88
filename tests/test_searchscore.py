"""The score of a search over time: by hand, and its convergence."""

import math

import pytest
from msgspec.structs import replace
from trial_records import entry

from hpcai import networks, opcount
from hpcai.formulas.aiperf import (
    Credit,
    ScorePoint,
    Work,
    converged,
    credits,
    error,
    highest,
    interval,
    least_seconds,
    ops,
    regulated,
    series,
    work,
)

CURVE = (
    entry(seconds=2.0, loss=2.0, samples=100, correct=30, counted=50),
    entry(seconds=5.0, loss=1.0, samples=100, correct=20, counted=50),
    entry(seconds=6.5, loss=None, samples=40, correct=None, counted=0),
)
EACH = Work(1000, 300)


def point_of(seconds: float, score: float, accuracy: float = 0.5) -> ScorePoint:
    """A point of a series with this score."""
    return ScorePoint(
        seconds=seconds, operations=0, ops=0.0, accuracy=accuracy, error=0.5, regulated_score=score, trials=0
    )


def test_work_is_counted_by_the_aiperf_rule() -> None:
    """METHODOLOGY, Tables I and II: ResNet-50 v1 at 224 x 224, forward, and forward and backward."""
    graph = networks.build("resnet50", (224, 224), 3, 1000, "v1")
    assert work(graph) == Work(7_806_583_495 + 15_246_874_820, 7_806_583_495)
    assert work(graph).training == opcount.count(graph, "aiperf").total


def test_each_entry_credits_training_and_validation_separately() -> None:
    assert list(credits(CURVE, EACH)) == [
        Credit(2.0, 100_000, 15_000, 0.6),
        Credit(5.0, 100_000, 15_000, 0.4),
        Credit(6.5, 40_000, 0, 0.0),
    ]
    assert list(credits((), EACH)) == []


def test_a_diverged_model_has_no_accuracy_but_its_operations_count() -> None:
    assert list(credits([replace(CURVE[0], loss=None)], EACH)) == [Credit(2.0, 100_000, 15_000, 0.0)]


def test_the_series_by_hand() -> None:
    """Operations over all the time so far; the accuracy is the best, also where a later one is worse."""
    points = series([*credits(CURVE, EACH)][::-1], [7.0, 3.0], 7.0, 2.0, 50)
    assert [point.seconds for point in points] == [2.0, 4.0, 6.0, 7.0]
    assert [point.operations for point in points] == [115_000, 115_000, 230_000, 270_000]
    assert [point.ops for point in points] == [57_500.0, 28_750.0, 230_000 / 6, 270_000 / 7]
    assert [point.accuracy for point in points] == [0.6] * 4
    assert [point.trials for point in points] == [0, 1, 1, 2]
    assert [point.error for point in points] == [0.4] * 4
    assert points[0].regulated_score == pytest.approx(0.916290731874155 * 57_500)


def test_before_the_first_validation_the_score_is_almost_zero() -> None:
    (point,) = series([Credit(1.0, 10**12, 0, 0.0)], [], 2.0, 2.0, 50)
    assert point.accuracy == 0.0 and point.error == 1 - 1e-9
    assert point.regulated_score == pytest.approx(500.0, rel=1e-6)


@pytest.mark.parametrize(("accuracy", "wrong"), [(0.0, 1 - 1e-9), (0.25, 0.75), (1.0, 1 / 51), (0.99, 1 / 51)])
def test_the_error_is_clamped(accuracy: float, wrong: float) -> None:
    assert error(accuracy, 50) == wrong


def test_the_formulas_by_hand() -> None:
    assert ops(10, 4.0) == 2.5
    assert regulated(math.exp(-2), 3.0) == pytest.approx(6.0)


@pytest.mark.parametrize(
    ("wanted", "duration", "step"),
    [(0.0, 100.0, 2.0), (0.0, 18_000.0, 360.0), (0.0, 1e6, 360.0), (7.0, 100.0, 7.0), (1e-320, 100.0, 0.01)],
)
def test_the_interval_of_the_series(wanted: float, duration: float, step: float) -> None:
    assert interval(wanted, duration) == step


def test_a_series_has_the_end_and_no_point_twice() -> None:
    assert [point.seconds for point in series([], [], 1.0, 5.0, 10)] == [1.0]
    for duration in (10.0, 0.3, 7.7, 12345.678, 1e-3):
        points = series([], [], duration, interval(0.0, duration), 10)
        assert len({point.seconds for point in points}) == len(points) == max(50, math.ceil(duration / 360))
        assert points[-1].seconds == duration


def test_the_score_counts_after_half_of_a_short_search_and_after_an_hour() -> None:
    assert [least_seconds(seconds) for seconds in (10.0, 7200.0, 50_000.0)] == [5.0, 3600.0, 3600.0]
    points = [point_of(float(t), score) for t, score in enumerate([9, 1, 3, 2], start=1)]
    assert highest(points, 2.0).seconds == 3.0
    assert highest(points, 1.0).seconds == 1.0


def rising(*scores: float, accuracy: float = 0.5) -> list[ScorePoint]:
    return [point_of(10.0 * n, score, accuracy) for n, score in enumerate(scores, start=1)]


def test_convergence_of_the_score() -> None:
    assert converged(rising(50, 100, 100.5, 100.9), 20)
    assert not converged(rising(50, 100, 100.5, 101.1), 20)
    assert not converged(rising(50, 100, 90, 100), 20)
    assert not converged(rising(50, 100, 100.5, 100.9), 21)
    assert converged(rising(100, 100.5, 100.9), 20)
    assert not converged(rising(100, 100.5, 100.9), 21), "it has not lasted so long"
    assert not converged(rising(1, 1, 1, accuracy=0.0), 10), "nothing was validated"
    assert not converged([], 10)
