"""Statistics of batch normalisation by channel: moments, tables of coefficients, gradients of weight and bias."""

import math
from typing import Any

from ...cpu.channel_sums import total
from ...cpu.channelwise import FACTOR, LEVEL, MEAN, SHIFT, SLOPE, TILT
from ...cpu.compiled import compiled
from ...cpu.load_store import bytes_of, read, write

FAR = 64.0  # a channel's mean is far from that of the table if its square exceeds so many variances


@compiled
def are_near(layer: Any, memory: Any, threads: Any) -> Any:
    """Whether all means are near those of the table, so that the sums of squares are of little more than deviations."""
    near = True
    for channel in range(layer.channels):
        mean = total(memory.sums, threads, channel) / layer.pixels
        square = total(memory.sums, threads, layer.channels + channel) / layer.pixels
        near = near and mean * mean <= FAR * (square - mean * mean + layer.eps)
    return near


@compiled
def compute_moments(like: Any, layer: Any, memory: Any, threads: Any) -> None:
    """Mean and variance from the sums, then the table."""
    size = bytes_of(like)
    for channel in range(layer.channels):
        mean = total(memory.sums, threads, channel) / layer.pixels
        square = total(memory.sums, threads, layer.channels + channel) / layer.pixels
        _write(
            like, read(like, memory.table + MEAN * memory.apart + channel * size) + mean, layer.mean + channel * size
        )
        _write(like, max(square - mean * mean, 0.0), layer.variance + channel * size)
    fill_table(like, layer, memory)


@compiled
def move_running(like: Any, layer: Any, mean: Any, variance: Any, momentum: Any) -> None:
    """Move running means and variances, at these addresses, towards those of the batch; the variance is a sample's."""
    size, unbiased = bytes_of(like), layer.pixels / max(layer.pixels - 1, 1)
    for at in range(0, layer.channels * size, size):
        _move(like, mean + at, read(like, layer.mean + at), momentum)
        _move(like, variance + at, read(like, layer.variance + at) * unbiased, momentum)


@compiled
def _move(like: Any, address: Any, towards: Any, share: Any) -> None:
    before = read(like, address)
    _write(like, before + share * (towards - before), address)


@compiled
def fill_table(like: Any, layer: Any, memory: Any) -> None:
    """The coefficients of the forward pass."""
    size = bytes_of(like)
    for channel in range(layer.channels):
        at = channel * size
        root = math.sqrt(read(like, layer.variance + at) + layer.eps)
        _write(like, read(like, layer.mean + at), memory.table + MEAN * memory.apart + at)
        _write(like, read(like, layer.weight + at) / root, memory.table + FACTOR * memory.apart + at)
        _write(like, read(like, layer.bias + at), memory.table + SHIFT * memory.apart + at)


@compiled
def compute_gradients(like: Any, layer: Any, memory: Any, threads: Any, dweight: Any, dbias: Any) -> None:
    """The gradients of weight and bias from the sums, and the coefficients of the gradient of x."""
    size = bytes_of(like)
    for channel in range(layer.channels):
        at = channel * size
        plain = total(memory.sums, threads, channel)
        centred = total(memory.sums, threads, layer.channels + channel)
        square = read(like, layer.variance + at) + layer.eps
        slope = read(like, layer.weight + at) / math.sqrt(square)
        _write(like, plain, dbias + at)
        _write(like, centred / math.sqrt(square), dweight + at)
        _write(like, slope, memory.table + SLOPE * memory.apart + at)
        _write(like, -slope * centred / (square * layer.pixels), memory.table + TILT * memory.apart + at)
        _write(like, -slope * plain / layer.pixels, memory.table + LEVEL * memory.apart + at)


@compiled
def _write(like: Any, number: Any, address: Any) -> None:
    write(type(like)(number), address)
