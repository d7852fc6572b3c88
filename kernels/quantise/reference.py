"""Quantisation in NumPy. Frozen: made to be obvious, not fast."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..spec import Float32, Tensors
from . import HIGHEST, LEAST


def quantised(values: Float32) -> tuple[NDArray[np.int8], Float32]:
    """int8 of the shape of the values, and float32[n], the scales along their first axis."""
    apart = values.reshape(len(values), -1)
    largest = np.abs(apart).max(axis=1)
    scales = np.where(largest < np.float32(LEAST), np.float32(0.0), largest / np.float32(HIGHEST))
    factors = np.divide(np.float32(1.0), scales, out=np.zeros_like(scales), where=scales != 0)
    return np.rint(apart * factors[:, None]).astype(np.int8).reshape(values.shape), scales


def seen(data: Tensors) -> Tensors:
    """The operands as int8 products see them, exact in float64; gradients of y are unchanged."""
    return Tensors(_exact(data.x), _exact(data.w), data.g)


def _exact(values: Float32) -> Any:
    numbers, scales = quantised(values)
    return numbers * scales.astype(np.float64).reshape(-1, *[1] * (values.ndim - 1))
