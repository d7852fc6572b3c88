"""Accuracies are predicted by the curve that fits them best."""

import math

import numpy as np
import pytest

from hpcai.search.predictor import predicted


def curve(a: float, b: float, c: float, count: int) -> list[float]:
    return [a * math.log2(epoch + b) + c for epoch in range(1, count + 1)]


@pytest.mark.parametrize("b", [-0.5, 0.0, 1.0, 10.0])
def test_a_curve_through_the_pseudo_point_is_found(b: float) -> None:
    """With the assumed point on the curve there is no error, and nothing is taken off."""
    most, c = 15, 0.1
    a = (0.75 - c) / math.log2(2 * most + b)
    value = predicted(curve(a, b, c, 8), most)
    assert value == pytest.approx(a * math.log2(1.5 * most + b) + c, abs=2e-3)


def test_least_squares_agree_with_a_fit_by_other_means() -> None:
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
def test_what_cannot_be_predicted_is_the_best_seen(accuracies: list[float], expected: float) -> None:
    assert predicted(accuracies, 15) == pytest.approx(expected)


def test_a_value_above_one_is_not_believed() -> None:
    accuracies = [0.1, 0.6, 0.95, 0.999]
    assert predicted(accuracies, 1) <= 1
