"""The slowest of several ranks: expected extremes of normal distributions (Gumbel, Statistics of Extremes, 1958)."""

from functools import lru_cache
from statistics import NormalDist

import numpy as np

NORMAL = NormalDist()
WIDEST, POINTS = 10.0, 8001  # standard deviations and points of the integral


@lru_cache(maxsize=256)
def largest_of(count: int) -> float:
    """Expected largest of `count` independent numbers of the standard normal distribution; 0 for one.

    The integral of x d(Phi(x)^count), by the trapezoidal rule.
    """
    x = np.linspace(-WIDEST, WIDEST, POINTS)
    below = np.array([NORMAL.cdf(value) for value in x])
    return float(np.sum((x[1:] + x[:-1]) / 2 * np.diff(below**count)))


def deviation_from_range(width: float, count: int) -> float:
    """Standard deviation that `count` normal numbers with this difference of the largest and the least suggest.

    Tippett, On the extreme individuals and the range of samples, 1925. 0 for one number.
    """
    return width / (2 * largest_of(count)) if count > 1 else 0.0


def deviation_from_quantiles(width: float, count: int) -> float:
    """Standard deviation of independent normal numbers whose largest of `count` has this distance from median to 95 %.

    Probabilities that all are below: 0.5 and 0.95 (Gumbel).
    """
    median, high = (NORMAL.inv_cdf(share ** (1 / count)) for share in (0.5, 0.95))
    return width / (high - median)
