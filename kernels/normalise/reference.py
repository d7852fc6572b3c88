"""The normalisation in NumPy. Frozen: made to be obvious, not fast."""

import numpy as np
from numpy.typing import NDArray

from ..spec import Float32, Float64


def normalised(pixels: NDArray[np.uint8], scale: Float32, shift: Float32) -> Float64:
    """float64[n, C, H, W] of uint8[n, C, H, W]."""
    by_channel = (1, len(scale), 1, 1)
    return pixels * scale.astype(np.float64).reshape(by_channel) + shift.astype(np.float64).reshape(by_channel)


def turned(
    fields: Float32, turns: NDArray[np.int64], negated: NDArray[np.bool_], mean: Float32, std: Float32
) -> Float64:
    """float64[n, C, H, W]: fields moved so many columns to the east; mirrored, rows and signs of `negated` channels."""
    found = np.empty(fields.shape, np.float64)
    for frame, (columns, mirrored) in enumerate(turns):
        seen = np.roll(fields[frame], columns, axis=2).astype(np.float64)
        if mirrored:
            seen = np.where(negated[:, None, None], -seen, seen)[:, ::-1]
        found[frame] = (seen - mean[:, None, None]) / std[:, None, None]
    return found
