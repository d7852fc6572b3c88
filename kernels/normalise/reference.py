"""The normalisation in NumPy. Frozen: made to be obvious, not fast."""

import numpy as np
from numpy.typing import NDArray

from ..spec import Float32, Float64


def normalised(pixels: NDArray[np.uint8], scale: Float32, shift: Float32) -> Float64:
    """float64[n, C, H, W] of uint8[n, C, H, W]."""
    by_channel = (1, len(scale), 1, 1)
    return pixels * scale.astype(np.float64).reshape(by_channel) + shift.astype(np.float64).reshape(by_channel)
