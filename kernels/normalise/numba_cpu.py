"""The normalisations in Numba: one pass from samples in any order to fp32 with the channels last."""

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


def turn(
    fields: Float32, turns: NDArray[np.int64], negated: NDArray[np.bool_], mean: Float32, std: Float32, out: Float32
) -> None:
    """Fill out [n, H, W, C] from fields [n, C, H, W] with any strides: (turned - mean) / std, as `reference.turned`."""
    n, channels, height, width = fields.shape
    assert out.shape == (n, height, width, channels) and turns.shape == (n, 2)
    assert len(negated) == len(mean) == len(std) == channels and ((turns >= 0) & (turns[:, :1] < width)).all()
    _turn(fields, turns, negated, mean, std, out)


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
def _turn(fields: Any, turns: Any, negated: Any, mean: Any, std: Any, out: Any) -> None:
    frames, height, width, channels = out.shape
    for frame in range(frames):
        columns, mirrored = turns[frame, 0], turns[frame, 1] == 1
        for row in range(height):
            source = height - 1 - row if mirrored else row
            for column in range(width):
                target = column + columns if column + columns < width else column + columns - width
                for channel in range(channels):
                    value = fields[frame, channel, source, column]
                    if mirrored and negated[channel]:
                        value = -value
                    out[frame, row, target, channel] = (value - mean[channel]) / std[channel]
