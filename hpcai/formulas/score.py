"""The scores as pure functions of measurements, each with the section and equation of its paper."""

import math
from collections.abc import Sequence

from hpcai.workloads.workload import Quality

PUBLISHED_OPERATIONS = 23.0e9  # of a training image by ResNet-50 at 224 x 224
PUBLISHED_PENALTY = 10.0  # eight of nine rows of the published ranking follow from it; the papers write 5
LARGEST = 9999999.0  # replaces larger values, infinity and NaN; fits the columns of reports


def flops(operations: int, seconds: float) -> float:
    """Credited training operations per second of training time (HPC AI500 V3, Eq. 6)."""
    return operations / seconds


def valid_flops(rate: float, share: float, exponent: float) -> float:
    """FLOPS weighed by the quality reached: rate x (quality / target)^exponent (HPC AI500 V2, section 4.3, V3).

    share: quality / target or, where a smaller quality is better, target / quality.
    """
    return float(rate * share**exponent)


def published_flops(samples: int, seconds: float) -> float:
    """FLOPS by the papers' constant (HPC AI500 V2, V3), for comparison with published rows only."""
    return samples * PUBLISHED_OPERATIONS / seconds


def efficiency(rate: float, ranks: int, first_rate: float, first_ranks: int) -> float:
    """Parallel efficiency by weak scaling: FLOPS(N) / (N / N0 x FLOPS(N0)) against a sweep's first case."""
    return rate / (ranks / first_ranks * first_rate)


def above_ceiling(of: Quality, quality: float, ceiling: float, error: float, samples: int) -> float:
    """Standard errors by which a quality over `samples` samples exceeds the dataset's ceiling; 0 if it does not.

    Two errors add in squares: of a share of `samples` binomial trials that is `ceiling` in truth, and of the ceiling's
    own estimate. A quality that is no share has the second alone.
    """
    excess = of.excess(quality, ceiling)
    if excess <= 0:
        return 0.0
    variance = error**2 + (ceiling * (1.0 - ceiling) / samples if of.is_share else 0.0)
    return min(LARGEST, excess / math.sqrt(variance)) if variance > 0 else LARGEST


def paired_errors(total: float, squares: float, count: int) -> float:
    """Standard errors by which a quality that is a mean over `count` things is below its bound; 0 if it is not.

    Both are known of each thing, as in a paired test: total and squares are the sums of the differences quality - bound
    and of their squares.
    """
    if total >= 0:
        return 0.0
    variance = max(0.0, squares / count - (total / count) ** 2) / max(1, count - 1)
    return min(LARGEST, -total / count / math.sqrt(variance)) if variance > 0 else LARGEST


def speedup(rate: float, first_rate: float) -> float:
    """FLOPS relative to a sweep's first case, in studies of precision and compression (HPC AI500 V3)."""
    return rate / first_rate


def disagreement(agreeing_pairs: int, models: int, samples: int) -> float:
    """Share of pairs of models, averaged over the samples, that predict different classes."""
    pairs = models * (models - 1) // 2 * samples
    return 1.0 - agreeing_pairs / pairs


def mean_precision(classes: Sequence[float | None]) -> float:
    """Mean average precision of the classes that have true boxes (None: one that has not); 0 if none has any."""
    there = [precision for precision in classes if precision is not None]
    return math.fsum(there) / len(there) if there else 0.0
