"""The Gaussian process equals that of the textbook, and fails for no history."""

import numpy as np
import pytest

from hpcai.search.gaussian_process import BETA, NOISE, SCALES, Floats, fit, predict, upper_confidence_bound


def on_a_line(*places: float) -> Floats:
    """Distances between points."""
    return np.abs(np.subtract.outer(places, places))


def between(places: list[float], others: list[float]) -> Floats:
    return np.abs(np.subtract.outer(places, others))


def dense(tried: Floats, accuracies: Floats, asked: Floats, scale: float) -> tuple[Floats, Floats]:
    """Mean and deviation by the inverse of the whole matrix (Rasmussen and Williams, equations 2.25 and 2.26)."""
    inverse = np.linalg.inv(np.exp(-tried / scale) + NOISE * np.eye(len(tried)))
    near = np.exp(-asked / scale)
    mean, deviation = accuracies.mean(), accuracies.std()
    variance = 1 - np.einsum("mi,ij,mj->m", near, inverse, near)
    return mean + near @ inverse @ (accuracies - mean), deviation * np.sqrt(variance)


@pytest.mark.parametrize("count", [2, 3, 40])
def test_mean_and_deviation_are_those_of_the_dense_formula(count: int) -> None:
    generator = np.random.default_rng(count)
    places, asked = [*generator.uniform(0, 9, count)], [*generator.uniform(-2, 11, 25)]
    accuracies = 0.8 + 0.1 * np.sin(places)
    process = fit(on_a_line(*places), accuracies)
    assert process.noise == NOISE
    means, deviations = predict(process, between(asked, places))
    wanted = dense(on_a_line(*places), accuracies, between(asked, places), process.scale)
    np.testing.assert_allclose(means, wanted[0], rtol=0, atol=1e-10)
    np.testing.assert_allclose(deviations, wanted[1], rtol=0, atol=1e-8)
    np.testing.assert_allclose(upper_confidence_bound(process, between(asked, places)), means + BETA * deviations)


def density(covariance: Floats, values: Floats) -> float:
    """Logarithm of the normal density, without the constant."""
    return float(-values @ np.linalg.inv(covariance) @ values - np.linalg.slogdet(covariance)[1]) / 2


@pytest.mark.parametrize("place", [0, 3])
def test_the_scale_has_the_highest_likelihood(place: int) -> None:
    tried = on_a_line(*np.linspace(0, 10, 150))
    scales = SCALES * np.median(tried[tried > 0])
    covariances = [np.exp(-tried / scale) + NOISE * np.eye(len(tried)) for scale in scales]
    values = np.linalg.cholesky(covariances[place]) @ np.random.default_rng(3).standard_normal(len(tried))
    values = (values - values.mean()) / values.std()
    likely = np.argmax([density(covariance, values) for covariance in covariances])
    assert fit(tried, 0.5 + 0.1 * values).scale == pytest.approx(scales[likely])


def test_the_deviation_is_small_at_tried_and_large_at_distant_points() -> None:
    accuracies = np.array([0.5, 0.7, 0.6])
    process = fit(on_a_line(0, 3, 6), accuracies)
    means, deviations = predict(process, between([0, 3, 6, 1000], [0, 3, 6]))
    np.testing.assert_allclose(means, [*accuracies, accuracies.mean()], atol=1e-3)
    assert max(deviations[:3]) < 0.05 * accuracies.std()
    assert deviations[3] == pytest.approx(accuracies.std())


def test_one_trial_is_enough() -> None:
    process = fit(np.zeros((1, 1)), np.array([0.6]))
    means, deviations = predict(process, np.array([[0.0], [2.0], [50.0]]))
    np.testing.assert_allclose(means, 0.6)
    assert deviations[0] < deviations[1] < deviations[2] <= 1


def test_equal_accuracies_leave_a_deviation() -> None:
    process = fit(on_a_line(0, 1, 2), np.array([0.1, 0.1, 0.1]))
    bounds = upper_confidence_bound(process, between([0, 1.5, 9], [0, 1, 2]))
    assert np.isfinite(bounds).all()
    assert 0.1 <= bounds[0] < bounds[1] < bounds[2]


def test_duplicates_have_the_mean_of_their_accuracies() -> None:
    places = [0.0, 0.0, 0.0, 4.0, 4.0]
    process = fit(on_a_line(*places), np.array([0.5, 0.6, 0.7, 0.9, 0.9]))
    means, deviations = predict(process, between([0, 4], places))
    np.testing.assert_allclose(means, [0.6, 0.9], atol=2e-3)
    assert np.isfinite(deviations).all()


def test_a_history_of_duplicates_alone() -> None:
    process = fit(np.zeros((4, 4)), np.array([0.5, 0.6, 0.7, 0.6]))
    means, _ = predict(process, np.zeros((1, 4)))
    np.testing.assert_allclose(means, 0.6, atol=1e-3)


@pytest.mark.parametrize("count", [5, 60])
def test_distances_that_are_not_metric_get_more_noise(count: int) -> None:
    """Around a centre that is near to all, all are far from one another: no points have such distances."""
    tried = np.full((count, count), 10.0)
    tried[0] = tried[:, 0] = 0.01
    np.fill_diagonal(tried, 0)
    accuracies = np.linspace(0.1, 0.9, count)
    with pytest.raises(np.linalg.LinAlgError):
        np.linalg.cholesky(np.exp(-tried / np.median(tried[tried > 0])) + NOISE * np.eye(count))
    process = fit(tried, accuracies)
    assert process.noise > NOISE
    assert np.isfinite(upper_confidence_bound(process, tried)).all()
