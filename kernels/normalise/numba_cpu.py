"""Normalisation in Numba: one pass from samples in any memory order to fp32 with channels last."""

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


def transform_and_normalise(
    fields: Float32,
    transforms: NDArray[np.int64],
    negated: NDArray[np.bool_],
    mean: Float32,
    std: Float32,
    out: Float32,
) -> None:
    """Fill out [n, H, W, C] from fields [n, C, H, W] with any strides, rotated, mirrored and normalised.

    transforms [n, 2]: columns of eastward rotation, and 1 where mirrored, which also flips the sign of `negated`
    channels.
    """
    n, channels, height, width = fields.shape
    assert out.shape == (n, height, width, channels) and transforms.shape == (n, 2)
    assert len(negated) == len(mean) == len(std) == channels and ((transforms >= 0) & (transforms[:, :1] < width)).all()
    _transform_and_normalise(fields, transforms, negated, mean, std, out)


@compiled
def _normalise(pixels: Any, scale: Any, shift: Any, out: Any) -> None:
    images, height, width, channels = out.shape
    for image in range(images):
        for row in range(height):
            for channel in range(channels):
                for column in range(width):
                    value = np.float32(pixels[image, channel, row, column])
                    out[image, row, column, channel] = value * scale[channel] + shift[channel]


@compiled
def _transform_and_normalise(fields: Any, transforms: Any, negated: Any, mean: Any, std: Any, out: Any) -> None:
    frames, height, width, channels = out.shape
    for frame in range(frames):
        columns, mirrored = transforms[frame, 0], transforms[frame, 1] == 1
        for row in range(height):
            source = height - 1 - row if mirrored else row
            for column in range(width):
                target = column + columns if column + columns < width else column + columns - width
                for channel in range(channels):
                    value = fields[frame, channel, source, column]
                    if mirrored and negated[channel]:
                        value = -value
                    out[frame, row, target, channel] = (value - mean[channel]) / std[channel]
