"""Crop image by image, with a weight matrix for each side. Frozen: made to be obvious, not fast."""

import numpy as np
from numpy.typing import NDArray

from . import LAST_BITS, ROW_BITS, WEIGHT_BITS, Boxes, Images, check


def crop(images: Images, boxes: Boxes, out: Images) -> None:
    """Fill out (n, side, side, C) from the boxes of the images (n, H, W, C)."""
    check(images.shape, boxes, out.shape)
    for image, (top, left, height, width, mirrored), target in zip(images, boxes.tolist(), out, strict=True):
        part = image[top : top + height, left : left + width].astype(np.int64)
        rows = np.einsum("ij,jxc->ixc", weights(height, len(target)), part)
        rows = (rows + (1 << ROW_BITS - 1)) >> ROW_BITS
        pixels = np.einsum("ij,yjc->yic", weights(width, len(target)), rows)
        pixels = (pixels + (1 << LAST_BITS - 1)) >> LAST_BITS
        target[:] = pixels[:, ::-1] if mirrored else pixels


def weights(size: int, out: int) -> NDArray[np.int64]:
    """Matrix (out, size) of the weights of source pixels in output pixels; every row sums to 2^15."""
    i, j = np.arange(out)[:, None], np.arange(size)[None, :]
    triangle = np.maximum(0, 2 * max(size, out) - abs((2 * j + 1) * out - (2 * i + 1) * size))
    scaled = (triangle << WEIGHT_BITS) // triangle.sum(axis=1, keepdims=True)
    scaled[np.arange(out), triangle.argmax(axis=1)] += (1 << WEIGHT_BITS) - scaled.sum(axis=1)
    return scaled
