"""RoIAlign on CPUs, vectorised over channels; pixels that several samples of a bin see are merged.

Threads divide regions in the forward pass, images or channels in the backward pass, where regions overlap. Each number
is therefore summed in one order, and the result does not depend on the number of threads.
"""

from typing import Any

import numpy as np

from ..cpu.compiled import compiled
from ..cpu.parallel import parallel_for
from ..spec import Float32
from . import Levels, Regions, check

PROVIDER = "custom"
DEVICES = ("cpu",)

_TOGETHER = 4  # pixels that are added at a time, which reads and writes sums a quarter as often
_LEAST_CHANNELS = 16  # of a thread: a cache line


def forward(
    features: Float32,
    regions: Regions,
    level: Levels,
    own_level: int,
    scale: float,
    side: int,
    samples: int,
    out: Float32,
    threads: int = 1,
) -> None:
    """Fill out [B, R, side, side, C] from features [B, H, W, C] for regions of level `own_level`; contiguous."""
    check(features.shape, regions.shape, level.shape, out.shape, samples)
    assert features.flags.c_contiguous and out.flags.c_contiguous and out.shape[2] == side
    if out.size:
        _forward(threads, features, regions, level, int(own_level), float(scale), samples, out)


def backward(
    gradient: Float32,
    regions: Regions,
    level: Levels,
    own_level: int,
    scale: float,
    side: int,
    samples: int,
    into: Float32,
    threads: int = 1,
) -> None:
    """Add to `into` [B, H, W, C], the gradient of the features, what the gradient of `out` contributes; contiguous."""
    check(into.shape, regions.shape, level.shape, gradient.shape, samples)
    assert gradient.flags.c_contiguous and into.flags.c_contiguous and gradient.shape[2] == side
    if gradient.size:
        slabs = max(1, min(-(-threads // len(into)), into.shape[3] // _LEAST_CHANNELS))
        _backward(threads, slabs, gradient, regions, level, int(own_level), float(scale), samples, into)


@compiled
def _taps(size: Any, low: Any, high: Any, scale: Any, samples: Any, pixel: Any, weight: Any, count: Any) -> None:
    """Pixels of each bin along one side and their weights, [side, 2 samples], and their number."""
    side = len(count)
    for bin_ in range(side):
        count[bin_] = 0
        for sample in range(samples):
            point = low * scale - 0.5 + (bin_ + (sample + 0.5) / samples) * ((high - low) * scale / side)
            if -1.0 <= point <= size:
                inside = min(max(point, 0.0), size - 1.0)
                before = int(inside)
                _add(before, (1.0 - (inside - before)) / samples, pixel[bin_], weight[bin_], bin_, count)
                if inside > before:
                    _add(before + 1, (inside - before) / samples, pixel[bin_], weight[bin_], bin_, count)


@compiled
def _add(place: Any, share: Any, pixel: Any, weight: Any, bin_: Any, count: Any) -> None:
    """Add a pixel, or its weight to a known one."""
    for known in range(count[bin_]):
        if pixel[known] == place:
            weight[known] += share
            return
    pixel[count[bin_]], weight[count[bin_]] = place, share
    count[bin_] += 1


@compiled
def _room(side: Any, samples: Any) -> Any:
    """Arrays for the taps along both sides, and for the pixels of a bin and their weights."""
    most = 2 * samples
    along = (np.empty((side, most), np.int64), np.empty((side, most), np.float64), np.empty(side, np.int64))
    across = (np.empty((side, most), np.int64), np.empty((side, most), np.float64), np.empty(side, np.int64))
    return along, across, np.empty(most * most + _TOGETHER, np.int64), np.empty(most * most + _TOGETHER, np.float32)


@compiled
def _both_taps(height: Any, width: Any, region: Any, scale: Any, samples: Any, along: Any, across: Any) -> None:
    _taps(height, np.float64(region[0]), np.float64(region[2]), scale, samples, along[0], along[1], along[2])
    _taps(width, np.float64(region[1]), np.float64(region[3]), scale, samples, across[0], across[1], across[2])


@compiled
def _bin(along: Any, across: Any, i: Any, j: Any, width: Any, places: Any, weights: Any) -> Any:
    """Indices and weights of the pixels of a bin, padded with weight 0 to a multiple of _TOGETHER."""
    count = 0
    for a in range(along[2][i]):
        for b in range(across[2][j]):
            places[count] = along[0][i, a] * width + across[0][j, b]
            weights[count] = along[1][i, a] * across[1][j, b]
            count += 1
    for rest in range(count, count + (-count) % _TOGETHER):
        places[rest], weights[rest] = places[0], 0.0
    return count


@compiled
def _forward(
    threads: Any, features: Any, regions: Any, level: Any, own_level: Any, scale: Any, samples: Any, out: Any
) -> None:
    parallel_for(_pooled, threads, (threads, features, regions, level, own_level, scale, samples, out))


@compiled
def _pooled(
    thread: Any,
    threads: Any,
    features: Any,
    regions: Any,
    level: Any,
    own_level: Any,
    scale: Any,
    samples: Any,
    out: Any,
) -> None:
    """The regions of one thread."""
    images, number, side = out.shape[0], out.shape[1], out.shape[2]
    height, width, channels = features.shape[1], features.shape[2], features.shape[3]
    along, across, places, weights = _room(side, samples)
    for item in range(thread, images * number, threads):
        image, region = item // number, item % number
        if level[image, region] == own_level:
            pixels = features[image].reshape(height * width, channels)
            _both_taps(height, width, regions[image, region], scale, samples, along, across)
            _pool(pixels, width, along, across, places, weights, out[image, region])


@compiled
def _pool(pixels: Any, width: Any, along: Any, across: Any, places: Any, weights: Any, out: Any) -> None:
    for i in range(out.shape[0]):
        for j in range(out.shape[1]):
            count = _bin(along, across, i, j, width, places, weights)
            target = out[i, j]
            for channel in range(len(target)):
                target[channel] = 0.0
            for first in range(0, count, _TOGETHER):
                _mix(pixels, places[first:], weights[first:], target)


@compiled
def _mix(pixels: Any, places: Any, weights: Any, target: Any) -> None:
    """Add four weighted pixels."""
    a, b, c, d = pixels[places[0]], pixels[places[1]], pixels[places[2]], pixels[places[3]]
    of_a, of_b, of_c, of_d = weights[0], weights[1], weights[2], weights[3]
    for channel in range(len(target)):
        value = of_a * a[channel] + of_b * b[channel] + of_c * c[channel] + of_d * d[channel]
        target[channel] += value


@compiled
def _backward(
    threads: Any,
    slabs: Any,
    gradient: Any,
    regions: Any,
    level: Any,
    own_level: Any,
    scale: Any,
    samples: Any,
    into: Any,
) -> None:
    parallel_for(_spread_out, threads, (threads, slabs, gradient, regions, level, own_level, scale, samples, into))


@compiled
def _spread_out(
    thread: Any,
    threads: Any,
    slabs: Any,
    gradient: Any,
    regions: Any,
    level: Any,
    own_level: Any,
    scale: Any,
    samples: Any,
    into: Any,
) -> None:
    """The images, or channels of images, of one thread."""
    images, number, side = gradient.shape[0], gradient.shape[1], gradient.shape[2]
    height, width, channels = into.shape[1], into.shape[2], into.shape[3]
    along, across, places, weights = _room(side, samples)
    for item in range(thread, images * slabs, threads):
        image, slab = item // slabs, item % slabs
        begin, end = slab * channels // slabs, (slab + 1) * channels // slabs
        pixels = into[image].reshape(height * width, channels)
        for region in range(number):
            if level[image, region] == own_level:
                _both_taps(height, width, regions[image, region], scale, samples, along, across)
                _spread(gradient[image, region], begin, end, width, along, across, places, weights, pixels)


@compiled
def _spread(
    bins: Any, begin: Any, end: Any, width: Any, along: Any, across: Any, places: Any, weights: Any, pixels: Any
) -> None:
    """Add each bin to its pixels, in the channels from `begin` to `end`."""
    for i in range(bins.shape[0]):
        for j in range(bins.shape[1]):
            source = bins[i, j][begin:end]
            for place in range(_bin(along, across, i, j, width, places, weights)):
                target, weight = pixels[places[place]][begin:end], weights[place]
                for channel in range(len(target)):
                    target[channel] += weight * source[channel]
