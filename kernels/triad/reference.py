"""The triad in NumPy. Frozen: made to be obvious, not fast."""

from typing import Any

import numpy as np


def triad(b: Any, c: Any, s: float) -> Any:
    """float64: b + s c."""
    return b.astype(np.float64) + s * c.astype(np.float64)
