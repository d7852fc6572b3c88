"""Crop on one core, without the interpreter's lock, so that several threads can divide a batch."""

from typing import Any

import numpy as np

from ..cpu.compiled import compiled
from . import HEIGHT, LAST_BITS, LEFT, MIRRORED, ROW_BITS, TOP, WEIGHT_BITS, WIDTH, Boxes, Images, check

_HALF_ROW = 1 << ROW_BITS - 1
_HALF_LAST = 1 << LAST_BITS - 1


def crop(images: Images, boxes: Boxes, out: Images) -> None:
    """Fill out (n, side, side, C) from the boxes of the images (n, H, W, C)."""
    check(images.shape, boxes, out.shape)
    _crop(np.ascontiguousarray(images), boxes, out)


@compiled
def _taps(size: Any, side: Any) -> Any:
    """First source pixel of each output pixel, and weights; equally many for each, some of them 0."""
    reach = 2 * max(size, side)
    taps = min(size, (reach + side - 1) // side)
    first, weights = np.empty(side, np.int64), np.zeros((side, taps), np.int32)
    for i in range(side):
        centre = (2 * i + 1) * size
        before = centre - reach - side
        first[i] = min(before // (2 * side) + 1 if before >= 0 else 0, size - taps)
        total, largest, missing = 0, 0, 1 << WEIGHT_BITS
        for k in range(taps):
            weights[i, k] = max(0, reach - abs((2 * (first[i] + k) + 1) * side - centre))
            total += weights[i, k]
            largest = k if weights[i, k] > weights[i, largest] else largest
        for k in range(taps):
            weights[i, k] = (weights[i, k] << WEIGHT_BITS) // total
            missing -= weights[i, k]
        weights[i, largest] += missing
    return first, weights


@compiled
def _column_taps(size: Any, side: Any, channels: Any, mirrored: Any) -> Any:
    """The taps of a row of side x channels values, weights (taps, side x channels), in a layout for vectorisation."""
    first, weights = _taps(size, side)
    index = np.empty(side * channels, np.uint32)
    spread = np.empty((weights.shape[1], side * channels), np.int32)
    for x in range(side):
        source = side - 1 - x if mirrored else x
        for c in range(channels):
            index[x * channels + c] = first[source] * channels + c
            for k in range(len(spread)):
                spread[k, x * channels + c] = weights[source, k]
    return index, spread


@compiled
def _mix_rows(part: Any, weights: Any, row: Any) -> None:
    """Weighted sum of the rows of a part, with 7 fractional bits."""
    for x in range(len(row)):
        row[x] = _HALF_ROW
    for k in range(len(part)):
        weight = weights[k]
        for x in range(len(row)):
            row[x] += weight * np.int32(part[k, x])
    for x in range(len(row)):
        row[x] >>= ROW_BITS


@compiled
def _mix_columns(row: Any, index: Any, weights: Any, step: Any, sums: Any, out: Any) -> None:
    """One row of the result; neighbouring source pixels are `step` values apart."""
    for x in range(len(sums)):
        sums[x] = _HALF_LAST
    for k in range(len(weights)):
        for x in range(len(sums)):
            sums[x] += weights[k, x] * row[index[x] + np.uint32(k * step)]
    for x in range(len(sums)):
        out[x] = sums[x] >> LAST_BITS


@compiled
def _crop(images: Any, boxes: Any, out: Any) -> None:
    n, height, width, channels = images.shape
    side = out.shape[1]
    memory, sums = np.empty(width * channels, np.int32), np.empty(side * channels, np.int32)
    lines, target = images.reshape((n, height, width * channels)), out.reshape((n, side, side * channels))
    for number in range(n):
        box = boxes[number]
        begin, end = box[LEFT] * channels, (box[LEFT] + box[WIDTH]) * channels
        row = memory[: end - begin]
        first, weights = _taps(box[HEIGHT], side)
        index, spread = _column_taps(box[WIDTH], side, channels, box[MIRRORED])
        for y in range(side):
            top = box[TOP] + first[y]
            _mix_rows(lines[number, top : top + weights.shape[1], begin:end], weights[y], row)
            _mix_columns(row, index, spread, channels, sums, target[number, y])
