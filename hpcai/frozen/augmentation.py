"""Augmentation of training samples: crops of packed images, rotation and reflection of climate fields.

Source of the crops: Szegedy et al., "Going deeper with convolutions", CVPR 2015, section 6.
"""

from collections.abc import Iterable
from decimal import Decimal, localcontext
from functools import cache
from math import sqrt

import numpy as np
from numpy.typing import NDArray

from hpcai.frozen.philox import CROPS, FIELD_TRANSFORMS, Integers, below, draws, stream

Boxes = list[list[int]]  # of a frame: rows [ymin, xmin, ymax, xmax, class]

_ATTEMPTS, _RATIOS = 10, 4096
_SIGNED = (11, 12)  # channels V850 and VBOT: meridional winds


def crops(side: int, seed: int, model: int, numbers: Integers) -> Integers:
    """Crops of a model's draws, numbered through all epochs: int64[n, 5], top, left, height, width, mirrored."""
    words = [draws(seed, stream(CROPS, model, part), numbers) for part in range(_ATTEMPTS + 2)]
    found = [_crop(side, attempts, corner, mirror) for *attempts, corner, mirror in zip(*words, strict=True)]
    return np.array(found, np.int64).reshape(-1, 5)


def _crop(side: int, attempts: Iterable[int], corner: int, mirror: int) -> list[int]:
    (height, width), (down, right) = _size(side, attempts), divmod(corner, 2**32)
    top, left = down * (side - height + 1) >> 32, right * (side - width + 1) >> 32
    return [top, left, height, width, mirror >> 63]


def _size(side: int, attempts: Iterable[int]) -> tuple[int, int]:
    """Height and width: of the first attempt that fits, else of the whole image."""
    for word in attempts:
        area, shape = divmod(word, 2**32)
        edge, ratio = side * sqrt(0.08 + (1 - 0.08) * (area / 2**32)), shape * _RATIOS >> 32
        height, width = round(edge * _roots()[_RATIOS - 1 - ratio]), round(edge * _roots()[ratio])
        if max(height, width) <= side:
            return height, width
    return side, side


@cache
def _roots() -> list[float]:
    """Square roots of the ratios of width to height, from 3/4 to 4/3, equally spaced in their logarithm."""
    with localcontext(prec=30):
        half = (Decimal(4) / 3).ln() / 2
        return [float((half * (2 * place + 1 - _RATIOS) / _RATIOS).exp()) for place in range(_RATIOS)]


def transforms(width: int, seed: int, model: int, numbers: Integers) -> Integers:
    """Transforms of a model's draws, numbered through all epochs: int64[n, 2], columns to the east, mirrored."""
    parts = [below(bound, seed, stream(FIELD_TRANSFORMS, model, part), numbers) for part, bound in ((0, width), (1, 2))]
    return np.stack(parts, 1)


def transformed(field: NDArray[np.float64], columns: int, mirrored: int) -> NDArray[np.float64]:
    """A field [16, H, W], rotated to the east; mirrored: rows in reverse order, meridional winds with another sign."""
    found = np.roll(field, columns, axis=2)
    if mirrored:
        found = found[:, ::-1].copy()
        for channel in _SIGNED:
            found[channel] = -found[channel]
    return found


def transformed_boxes(boxes: Boxes, columns: int, mirrored: int, height: int, width: int) -> Boxes:
    """The boxes of a transformed field."""
    moved = []
    for top, left, bottom, right, number in boxes:
        rows = (height - bottom, height - top) if mirrored else (top, bottom)
        moved.append(on_map([rows[0], left + columns, rows[1], right + columns, number], width))
    return moved


def on_map(box: list[int], width: int) -> list[int]:
    """A box with columns of the map; of one that crosses the map's edge the wider part, the first of equal ones."""
    top, left, bottom, right, number = box
    right, left = right - left // width * width, left % width
    if right > width:
        left, right = (left, width) if width - left >= right - width else (0, right - width)
    return [top, left, bottom, right, number]
