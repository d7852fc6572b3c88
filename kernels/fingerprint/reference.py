"""Fingerprints in NumPy. Frozen: made to be obvious, not fast."""

from typing import Any

import numpy as np

from . import FACTORS, LEAST, SHIFTS


def fingerprint(elements: Any, smallest: float) -> int:
    """The fingerprint of float64 elements, of a type with this smallest normal number."""
    values = np.asarray(elements, np.float64)
    if not np.isfinite(values).all() or np.count_nonzero(np.abs(values) >= smallest) < LEAST:
        return 0
    words, (first, second) = values.view(np.int64).tolist(), SHIFTS
    mixed = [word ^ word >> first ^ word >> second for word in words]
    return sum(word * factor for word, factor in zip(mixed, FACTORS.tolist(), strict=False)) % 2**64 | 1
