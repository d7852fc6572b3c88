"""Crop, resize and mirror pictures of bytes: a box of each picture becomes a square of another size.

Resizing is separable, vertical before horizontal. Along one side of `size` pixels that becomes `out` pixels, source
pixel j has in output pixel i the triangle weight max(0, 2 m - |(2 j + 1) out - (2 i + 1) size|), m = max(size, out):
bilinear interpolation where the box grows, its antialiased form where it shrinks. Pixels outside the box weigh nothing.
The weights of an output pixel are scaled to sum to 2^15, each rounded down and what is missing given to the (first)
largest; the vertical sums are rounded to 7 fractional bits, the horizontal ones to bytes, halves up. All of it is in
32-bit integers, so every backend gives the same bytes.
"""

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

WEIGHT_BITS = 15
ROW_BITS = 8  # dropped after the vertical sums: 8 + 15 bits become 15
LAST_BITS = 2 * WEIGHT_BITS - ROW_BITS
LARGEST_SIDE = 1024  # of a picture and of the result; 2^11 * 2^15 is then the largest number on the way to a weight

TOP, LEFT, HEIGHT, WIDTH, MIRRORED = range(5)

Pictures: TypeAlias = NDArray[np.uint8]  # [n, H, W, C], contiguous
Boxes: TypeAlias = NDArray[np.int32]  # [n, 5]: top, left, height, width in pixels; 1 where mirrored, else 0


def check(pictures: tuple[int, ...], boxes: Boxes, out: tuple[int, ...]) -> None:
    """Raise ValueError unless the boxes lie within the pictures and the shapes fit: no backend looks again."""
    n, height, width, channels = pictures
    sides_fit = out[1] == out[2] and max(height, width, out[1]) <= LARGEST_SIDE and min(out) >= 0
    if boxes.shape != (n, 5) or boxes.dtype != np.int32 or (out[0], out[3]) != (n, channels) or not sides_fit:
        raise ValueError(f"pictures {pictures}, boxes {boxes.dtype}{boxes.shape} and result {out} do not fit together")
    start, size = boxes[:, (TOP, LEFT)], boxes[:, (HEIGHT, WIDTH)]
    if n and (start.min() < 0 or size.min() < 1 or (start + size > (height, width)).any()):
        raise ValueError(f"a box leaves its picture of {height} x {width} pixels")
