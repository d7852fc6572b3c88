"""RoIAlign: each region of a feature map resampled to a square of bins, channels last.

Source: He et al., Mask R-CNN, ICCV 2017 (arXiv:1703.06870), section 3, with regions shifted by half a pixel
("aligned"): pixel k is centred at k + 1/2 of the region's coordinates. Along a side of `size` pixels, a region from
`low` to `high` in image coordinates, times `scale`, has `samples` evenly spaced points in each of its `side` bins, at p
= low scale - 1/2 + (bin + (s + 1/2) / samples) (high - low) scale / side. A point within -1 <= p <= size is clamped to
[0, size - 1] and interpolates its two neighbours linearly; any other contributes 0. A bin is the mean over its samples
in both directions. Positions are computed in float64, in that order, sums in fp32.
"""

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..spec import Float32, Spec, fp32_tolerance

Regions: TypeAlias = Float32  # [B, R, 4]: ymin, xmin, ymax, xmax in pixels of the image, half-open
Levels: TypeAlias = NDArray[np.int32]  # [B, R]: pyramid level of the map of a region; other values: none


@dataclass(frozen=True)
class Shape:
    """Maps [batch, height, width, channels] and `regions` regions of each, all on the same level."""

    batch: int
    height: int
    width: int
    channels: int
    regions: int
    side: int
    samples: int


def operations(shape: Shape) -> int:
    """Operations of one direction: four pixels a sample, one multiplication and one addition each."""
    points = (shape.side * shape.samples) ** 2
    return 2 * 4 * points * shape.channels * shape.regions * shape.batch


def nbytes(shape: Shape, direction: str = "", dtype: str = "fp32") -> int:
    """Bytes: maps, bins, and regions with their levels, once each; equal in both directions."""
    maps = shape.height * shape.width * shape.channels
    bins = shape.regions * shape.side**2 * shape.channels
    return 4 * shape.batch * (maps + bins + 5 * shape.regions)


SPEC = Spec[Shape](name="roi_align", operations=operations, nbytes=nbytes, tolerance=fp32_tolerance)


def check(
    maps: tuple[int, ...], regions: tuple[int, ...], level: tuple[int, ...], bins: tuple[int, ...], samples: int
) -> None:
    """Raise ValueError unless the shapes match; backends do not check again."""
    fit = len(maps) == 4 and len(regions) == 3 and regions[2] == 4 and regions[0] == maps[0]
    fit = fit and tuple(level) == tuple(regions[:2]) == tuple(bins[:2])
    fit = fit and len(bins) == 5 and bins[2] == bins[3] and bins[4] == maps[3]
    if not fit or samples < 1 or 0 in maps[1:3]:
        given = f"maps {tuple(maps)}, regions {tuple(regions)}, levels {tuple(level)} and bins {tuple(bins)}"
        raise ValueError(f"{given} do not fit together with {samples} samples")
