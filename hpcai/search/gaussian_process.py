"""A Gaussian process over networks: what accuracy is to be expected of one that is so far from those that were tried.

Source: Jin et al., "Auto-Keras", 2019 (arXiv:1806.10282), sections 3.1 and 3.2; Rasmussen and Williams, "Gaussian
Processes for Machine Learning", 2006, algorithm 2.1. The covariance is exp(-distance / scale), and mean and variance
are those of what was tried.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

BETA = 2.576  # standard deviations that a search is willing to hope for
NOISE = 1e-3  # variance between two trials of one network, as a share of that of all
SCALES = 2.0 ** np.arange(-2, 5)  # that are compared, in medians of the distances
LEAST_DEVIATION = 1e-9  # below it, accuracies are all the same but for rounding
Floats = NDArray[np.floating[Any]]


class Process(NamedTuple):
    """What is known of the n networks that were tried, ready to be asked."""

    inverse: Floats  # of the covariance's lower triangular factor, float64[n, n]
    weights: Floats  # float64[n]
    scale: float  # of distances
    mean: float  # of accuracies
    deviation: float
    noise: float


def fitted(distances: Floats, accuracies: Floats) -> Process:
    """From the distances between all networks, float64[n, n], and their accuracies, float64[n], n at least 1.

    The scale is the one of a few that makes these accuracies most likely (Rasmussen and Williams, equation 5.8).
    """
    positive = distances[distances > 0]
    scales = SCALES * np.median(positive) if len(positive) else np.ones(1)
    deviation = float(accuracies.std())
    deviation = deviation if deviation > LEAST_DEVIATION else 1.0
    mean = float(accuracies.mean())
    values = (accuracies - mean) / deviation
    factors = [(*factored(np.exp(-distances / scale)), float(scale)) for scale in scales]
    factor, noise, scale = max(factors, key=lambda found: likelihood(found[0], values))
    inverse = np.linalg.inv(factor)
    return Process(inverse, inverse.T @ (inverse @ values), scale, mean, deviation, noise)


def factored(covariance: Floats) -> tuple[Floats, float]:
    """Its Cholesky factor with noise on the diagonal, and that noise.

    An edit distance need not give a covariance that can be factored, nor do networks that are alike: the noise grows
    tenfold until it can, at the latest when it dominates each row.
    """
    noise = NOISE
    while True:
        try:
            return np.linalg.cholesky(covariance + noise * np.eye(len(covariance))), noise
        except np.linalg.LinAlgError:
            noise *= 10


def likelihood(factor: Floats, values: Floats) -> float:
    """Logarithm of how likely the values are, but for what does not depend on the covariance."""
    return float(-0.5 * (np.linalg.solve(factor, values) ** 2).sum() - np.log(factor.diagonal()).sum())


def expected(process: Process, distances: Floats) -> tuple[Floats, Floats]:
    """Mean and standard deviation of the accuracies of m networks, from their distances to the n tried, m x n."""
    near = np.exp(-distances / process.scale)
    variance = np.maximum(0.0, 1.0 - ((near @ process.inverse.T) ** 2).sum(axis=1))
    return process.mean + process.deviation * (near @ process.weights), process.deviation * np.sqrt(variance)


def upper_bound(process: Process, distances: Floats) -> Floats:
    """What may be hoped for: mean + 2.576 standard deviations, of each of m networks."""
    mean, deviation = expected(process, distances)
    return mean + BETA * deviation
