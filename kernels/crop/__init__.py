"""Crop, resize and mirror byte images: a box of each image becomes a square of another size.

Resizing is separable, vertical before horizontal. Along a side of `size` pixels that becomes `out` pixels, source pixel
j has in output pixel i the triangle weight max(0, 2 m - |(2 j + 1) out - (2 i + 1) size|), m = max(size, out): bilinear
interpolation where the box grows, antialiased where it shrinks. Pixels outside the box have weight 0. The weights of an
output pixel are scaled to sum to 2^15; each is rounded down, and the remainder is added to the (first) largest. The
vertical sums are rounded to 7 fractional bits, the horizontal sums to bytes, halves up. All arithmetic is in 32-bit
integers, so every backend gives the same bytes.
"""

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

WEIGHT_BITS = 15
ROW_BITS = 8  # dropped after the vertical sums: 8 + 15 bits become 15
LAST_BITS = 2 * WEIGHT_BITS - ROW_BITS
LARGEST_SIDE = 1024  # of an image and of the result; 2^11 * 2^15 is then the largest intermediate of a weight

TOP, LEFT, HEIGHT, WIDTH, MIRRORED = range(5)

Images: TypeAlias = NDArray[np.uint8]  # [n, H, W, C], contiguous
Boxes: TypeAlias = NDArray[np.int32]  # [n, 5]: top, left, height, width in pixels; 1 where mirrored, else 0


def check(images: tuple[int, ...], boxes: Boxes, out: tuple[int, ...]) -> None:
    """Raise ValueError unless the boxes lie within the images and the shapes match; backends do not check again."""
    n, height, width, channels = images
    sides_fit = out[1] == out[2] and max(height, width, out[1]) <= LARGEST_SIDE and min(out) >= 0
    if boxes.shape != (n, 5) or boxes.dtype != np.int32 or (out[0], out[3]) != (n, channels) or not sides_fit:
        raise ValueError(f"images {images}, boxes {boxes.dtype}{boxes.shape} and result {out} do not fit together")
    start, size = boxes[:, (TOP, LEFT)], boxes[:, (HEIGHT, WIDTH)]
    if n and (start.min() < 0 or size.min() < 1 or (start + size > (height, width)).any()):
        raise ValueError(f"a box leaves its image of {height} x {width} pixels")
