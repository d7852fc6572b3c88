"""The triad in NumPy. Frozen: made to be obvious, not fast."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from ..spec import Compared
from . import S, Shape, Vectors

BLOCK_ELEMENTS = 2**17


def triad(b: Any, c: Any, s: float) -> Any:
    """float64: b + s c."""
    return b.astype(np.float64) + s * c.astype(np.float64)


def compared(a: Any, data: Vectors, shape: Shape, tolerance: float) -> Iterator[Compared]:
    """Blocks of `a` with their exact values; tolerance is that of two terms."""
    for first in range(0, shape.length, BLOCK_ELEMENTS):
        part = slice(first, first + BLOCK_ELEMENTS)
        yield elements(a[part], Vectors(data.b[part], data.c[part]), tolerance)


def elements(a: Any, data: Vectors, tolerance: float) -> Compared:
    """Some elements of `a` and those of the operands, with their exact values."""
    b, c = data
    return Compared(a, triad(b, c, S), tolerance * np.sqrt(np.square(b) + np.square(S * c)))
