"""The normalisation in Numba: one pass from bytes in any order to fp32 with the channels last."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..cpu.compiled import compiled
from ..spec import Float32


def normalise(pixels: NDArray[np.uint8], scale: Float32, shift: Float32) -> Float32:
    """float32[n, C, H, W], channels last in memory, of uint8[n, C, H, W] with any strides."""
    n, channels, height, width = pixels.shape
    out = np.empty((n, height, width, channels), np.float32)
    _normalise(pixels, scale, shift, out)
    return out.transpose(0, 3, 1, 2)


@compiled
def _normalise(pixels: Any, scale: Any, shift: Any, out: Any) -> None:
    images, height, width, channels = out.shape
    for image in range(images):
        for row in range(height):
            for channel in range(channels):
                for column in range(width):
                    value = np.float32(pixels[image, channel, row, column])
                    out[image, row, column, channel] = value * scale[channel] + shift[channel]
