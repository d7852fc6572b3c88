"""Gaussian process over networks: the expected accuracy of a network, by its edit distances to evaluated networks.

Source: Jin et al., "Auto-Keras", 2019 (arXiv:1806.10282), sections 3.1 and 3.2; Rasmussen and Williams, "Gaussian
Processes for Machine Learning", 2006, algorithm 2.1. The covariance is exp(-distance / scale), and mean and variance
are those of the evaluated networks.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

BETA = 2.576  # standard deviations in the upper confidence bound
NOISE = 1e-3  # variance between two trials of one network, as a share of the variance of all accuracies
SCALES = 2.0 ** np.arange(-2, 5)  # length scales that are compared, in medians of the distances
LEAST_DEVIATION = 1e-9  # below it, accuracies differ by rounding only
Floats = NDArray[np.floating[Any]]


class GaussianProcess(NamedTuple):
    """A Gaussian process fitted to n evaluated networks."""

    inverse: Floats  # of the covariance's lower triangular factor, float64[n, n]
    weights: Floats  # float64[n]
    scale: float  # of distances
    mean: float  # of accuracies
    deviation: float
    noise: float


def fit(distances: Floats, accuracies: Floats) -> GaussianProcess:
    """The process fitted to distances between all networks, float64[n, n], and accuracies, float64[n], n at least 1.

    The length scale is the one of SCALES with the highest likelihood (Rasmussen and Williams, equation 5.8).
    """
    positive = distances[distances > 0]
    scales = SCALES * np.median(positive) if len(positive) else np.ones(1)
    deviation = float(accuracies.std())
    deviation = deviation if deviation > LEAST_DEVIATION else 1.0
    mean = float(accuracies.mean())
    values = (accuracies - mean) / deviation
    factors = [(*cholesky(np.exp(-distances / scale)), float(scale)) for scale in scales]
    factor, noise, scale = max(factors, key=lambda candidate: log_likelihood(candidate[0], values))
    inverse = np.linalg.inv(factor)
    return GaussianProcess(inverse, inverse.T @ (inverse @ values), scale, mean, deviation, noise)


def cholesky(covariance: Floats) -> tuple[Floats, float]:
    """Cholesky factor of the covariance with noise on the diagonal, and that noise.

    The covariance of an edit distance, or of equal networks, need not be positive definite: the noise grows tenfold
    until it is, at the latest when the noise dominates each row.
    """
    noise = NOISE
    while True:
        try:
            return np.linalg.cholesky(covariance + noise * np.eye(len(covariance))), noise
        except np.linalg.LinAlgError:
            noise *= 10


def log_likelihood(factor: Floats, values: Floats) -> float:
    """Logarithm of the likelihood of the values, without terms that do not depend on the covariance."""
    return float(-0.5 * (np.linalg.solve(factor, values) ** 2).sum() - np.log(factor.diagonal()).sum())


def predict(process: GaussianProcess, distances: Floats) -> tuple[Floats, Floats]:
    """Mean and standard deviation of the accuracies of m networks, by their distances to the n evaluated, [m, n]."""
    covariance = np.exp(-distances / process.scale)
    variance = np.maximum(0.0, 1.0 - ((covariance @ process.inverse.T) ** 2).sum(axis=1))
    return process.mean + process.deviation * (covariance @ process.weights), process.deviation * np.sqrt(variance)


def upper_confidence_bound(process: GaussianProcess, distances: Floats) -> Floats:
    """Acquisition function: mean + 2.576 standard deviations of each of m networks, float64[m]."""
    mean, deviation = predict(process, distances)
    return mean + BETA * deviation
