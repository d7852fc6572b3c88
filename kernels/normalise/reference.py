"""Normalisation in NumPy. Frozen: made to be obvious, not fast."""

import numpy as np
from numpy.typing import NDArray

from ..spec import Float32, Float64


def normalised(pixels: NDArray[np.uint8], scale: Float32, shift: Float32) -> Float64:
    """float64[n, C, H, W] of uint8[n, C, H, W]."""
    by_channel = (1, len(scale), 1, 1)
    return pixels * scale.astype(np.float64).reshape(by_channel) + shift.astype(np.float64).reshape(by_channel)


def transformed_and_normalised(
    fields: Float32, transforms: NDArray[np.int64], negated: NDArray[np.bool_], mean: Float32, std: Float32
) -> Float64:
    """float64[n, C, H, W]: fields rotated eastward; mirrored: rows reversed and `negated` channels with flipped sign.
    """
    found = np.empty(fields.shape, np.float64)
    for frame, (columns, mirrored) in enumerate(transforms):
        seen = np.roll(fields[frame], columns, axis=2).astype(np.float64)
        if mirrored:
            seen = np.where(negated[:, None, None], -seen, seen)[:, ::-1]
        found[frame] = (seen - mean[:, None, None]) / std[:, None, None]
    return found
