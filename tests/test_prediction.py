"""Accuracies are predicted by the best-fitting curve."""

import math

import numpy as np
import pytest
import trial_records
from trial_records import entry

from hpcai.formulas.aiperf import Work, credits
from hpcai.formulas.learning_curve import predicted, value
from hpcai.record.trial import Trial


def curve(a: float, b: float, c: float, count: int) -> list[float]:
    return [a * math.log2(epoch + b) + c for epoch in range(1, count + 1)]


@pytest.mark.parametrize("b", [-0.5, 0.0, 1.0, 10.0])
def test_a_curve_through_the_pseudo_point_is_fitted(b: float) -> None:
    """With the assumed point on the curve there is no error, and nothing is subtracted."""
    most, c = 15, 0.1
    a = (0.75 - c) / math.log2(2 * most + b)
    value = predicted(curve(a, b, c, 8), most)
    assert value == pytest.approx(a * math.log2(1.5 * most + b) + c, abs=2e-3)


def test_least_squares_agree_with_another_method() -> None:
    """Gauss-Newton from the grid's best point, on noisy accuracies."""
    generator = np.random.default_rng(3)
    most, accuracies = 20, np.array(curve(0.1, 0.5, 0.2, 12)) + 0.005 * generator.standard_normal(12)
    x, y = np.append(np.arange(1.0, 13), 40.0), np.append(accuracies, 0.75)
    a, b, c = 0.1, 0.5, 0.2
    for _ in range(200):
        residual = y - (a * np.log2(x + b) + c)
        jacobian = np.stack([np.log2(x + b), a / ((x + b) * math.log(2)), np.ones_like(x)], axis=1)
        step = np.linalg.lstsq(jacobian, residual, rcond=None)[0]
        a, b, c = a + step[0], max(-0.99, b + step[1]), c + step[2]
    error = math.sqrt(float(np.mean((y - (a * np.log2(x + b) + c)) ** 2)))
    assert predicted([*accuracies], most) == pytest.approx(a * math.log2(30 + b) + c - 2 * error, abs=1e-3)


@pytest.mark.parametrize(
    ("accuracies", "expected"),
    [([], 0.0), ([0.4, 0.3], 0.4), ([0.9, 0.91, 0.92, 0.93], 0.93)],
)
def test_an_accuracy_that_cannot_be_predicted_is_the_best_one(accuracies: list[float], expected: float) -> None:
    assert predicted(accuracies, 15) == pytest.approx(expected)


def test_a_predicted_value_above_one_is_rejected() -> None:
    accuracies = [0.1, 0.6, 0.95, 0.999]
    assert predicted(accuracies, 1) <= 1


def trial(*correct: int | None, round: int = 1, end: str = "planned") -> Trial:
    """A trial whose validations had the given numbers of 100 right; None was cut before."""
    numbered = enumerate(correct, start=1)
    curve = tuple(entry(epoch=epoch, correct=c, counted=0 if c is None else 100) for epoch, c in numbered)
    return trial_records.trial(round=round, end=end, curve=curve)


def test_the_accuracy_of_a_trial_is_its_best() -> None:
    assert trial(40, 60, 50).accuracy == 0.6
    assert trial(40, None).accuracy == 0.4
    assert trial(None).accuracy == trial().accuracy == 0


@pytest.mark.parametrize("round", [1, 4, 5])
def test_a_search_ranks_short_trials_by_predicted_accuracies(round: int) -> None:
    correct = (40, 50, 56, 60, 63)
    expected = predicted([count / 100 for count in correct], 15) if round < 5 else 0.63
    assert value(trial(*correct, round=round, end="time"), 15) == expected
    assert predicted([count / 100 for count in correct], 15) > 0.64
    assert value(trial(*correct, None, round=round, end="time"), 15) == expected


@pytest.mark.parametrize("end", ["diverged", "memory", "lost"])
def test_failed_trials_have_no_value(end: str) -> None:
    assert value(trial(40, 50, 60, end=end, round=5), 15) == 0
    assert trial(40, 50, 60, end=end, round=5).accuracy == 0.6


def test_an_epoch_whose_loss_is_not_finite_has_no_accuracy() -> None:
    """The score and the ranking of trials use one definition of the accuracy of an entry."""
    diverged = entry(loss=None, correct=40, counted=100)
    assert diverged.accuracy == 0 and entry(correct=None, counted=0).accuracy is None
    assert [credit.accuracy for credit in credits([diverged], Work(1, 1))] == [0.0]
    assert trial_records.trial(curve=(diverged,)).accuracy == 0
