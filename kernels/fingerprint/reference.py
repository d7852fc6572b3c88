"""Fingerprints in NumPy. Frozen: made to be obvious, not fast."""

from typing import Any

import numpy as np

from . import FACTORS, LEAST


def fingerprint(elements: Any, smallest: float) -> int:
    """The fingerprint of float64 elements, of a type with this smallest normal number."""
    values = np.asarray(elements, np.float64)
    known = np.isfinite(values) & (np.abs(values) >= smallest)
    if len(values) < LEAST or not known.all():
        return 0
    words, factors = values.view(np.uint64).tolist(), FACTORS.tolist()
    return sum(word * factor for word, factor in zip(words, factors, strict=False)) % 2**64 | 1
