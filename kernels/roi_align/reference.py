"""RoIAlign region by region, with a matrix of weights for each side. Frozen: made to be obvious, not fast."""

import numpy as np

from ..spec import Float32, Float64
from . import Levels, Regions, check


def forward(
    features: Float32,
    regions: Regions,
    level: Levels,
    own_level: int,
    scale: float,
    side: int,
    samples: int,
    out: Float32 | Float64,
) -> None:
    """Fill out [B, R, side, side, C] from features [B, H, W, C] for regions whose level is `own_level`."""
    check(features.shape, regions.shape, level.shape, out.shape, samples)
    for image, region in np.argwhere(level == own_level):
        rows, columns = matrices(features.shape[1:3], regions[image, region], scale, side, samples)
        pixels = features[image].astype(np.float64)
        out[image, region] = np.einsum("iy,jx,yxc->ijc", rows, columns, pixels, optimize=True)


def backward(
    gradient: Float32,
    regions: Regions,
    level: Levels,
    own_level: int,
    scale: float,
    side: int,
    samples: int,
    into: Float32 | Float64,
) -> None:
    """Add to `into` [B, H, W, C], the gradient of the features, the contribution of the gradient of `out`."""
    check(into.shape, regions.shape, level.shape, gradient.shape, samples)
    for image, region in np.argwhere(level == own_level):
        rows, columns = matrices(into.shape[1:3], regions[image, region], scale, side, samples)
        bins = gradient[image, region].astype(np.float64)
        into[image] += np.einsum("iy,jx,ijc->yxc", rows, columns, bins, optimize=True)


def matrices(size: tuple[int, ...], region: Float32, scale: float, side: int, samples: int) -> tuple[Float64, Float64]:
    """Weights of rows (side, H) and of columns (side, W) in the bins of a region."""
    ymin, xmin, ymax, xmax = region.astype(np.float64)
    return weights(size[0], ymin, ymax, scale, side, samples), weights(size[1], xmin, xmax, scale, side, samples)


def weights(size: int, low: float, high: float, scale: float, side: int, samples: int) -> Float64:
    """Matrix (side, size) of the weights of pixels in bins along one side."""
    matrix = np.zeros((side, size))
    for bin_, sample in np.ndindex(side, samples):
        point = low * scale - 0.5 + (bin_ + (sample + 0.5) / samples) * ((high - low) * scale / side)
        if -1.0 <= point <= size:
            inside = min(max(point, 0.0), size - 1.0)
            before = int(inside)
            after = min(before + 1, size - 1)
            matrix[bin_, before] += (1.0 - (inside - before)) / samples
            matrix[bin_, after] += (inside - before) / samples
    return matrix
