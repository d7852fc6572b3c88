"""FMA peak in float64. Frozen: made to be obvious, not fast."""

import math
from collections.abc import Iterator

import numpy as np

from ..spec import Compared
from . import FACTOR, TERM, Shape


def repeated(factor: float, term: float, steps: int) -> float:
    """Result of `steps` iterations of sum = sum * factor + term from 0."""
    result = 0.0
    for _ in range(steps):
        result = result * factor + term
    return result


def compared(sums: object, shape: Shape, tolerance: float, term: float = TERM) -> Iterator[Compared]:
    """All sums with their exact value; tolerance is that of `shape.steps` terms."""
    C = np.asarray(sums, np.float64).reshape(-1)
    exact = np.full(len(C), repeated(FACTOR, term, shape.steps))
    yield Compared(C, exact, np.full(len(C), tolerance * math.sqrt(shape.steps) * TERM))
