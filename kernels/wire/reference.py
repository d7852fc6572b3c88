"""Quantisation of gradients in NumPy. Frozen: made to be obvious, not fast."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..spec import Float32, Float64
from . import HIGHEST, LEAST


def scale_of(values: Float32) -> float:
    """The scale of a vector."""
    largest = float(np.abs(values).max(initial=0.0))
    if not np.isfinite(largest):
        return float("inf")
    return 0.0 if largest < LEAST else float(2.0 ** np.ceil(np.log2(float(np.float32(largest / HIGHEST)))))


def quantised(values: Float32, scale: float) -> tuple[NDArray[np.int8], Float64]:
    """The bytes, and what rounding leaves of each number."""
    if scale == 0 or not np.isfinite(scale):
        return np.zeros(len(values), np.int8), values.astype(np.float64)
    whole = np.rint(values.astype(np.float64) / scale)
    return whole.astype(np.int8), values - whole * scale


def summed(rows: NDArray[Any], scale: float) -> Float64:
    """The sum of the rows, times the scale."""
    sums: Float64 = rows.astype(np.int64).sum(axis=0) * np.float64(scale)
    return sums
