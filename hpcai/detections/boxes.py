"""Half-open boxes [ymin, xmin, ymax, xmax]."""

from typing import Any

import numpy as np
from numpy.typing import NDArray


def areas(boxes: Any) -> NDArray[np.float64]:
    """float64[n] of boxes [n, 4]; negative sides count as 0."""
    sides = np.maximum(0.0, boxes[:, 2:4].astype(np.float64) - boxes[:, 0:2])
    return np.asarray(sides[:, 0] * sides[:, 1])


def iou(a: Any, b: Any) -> NDArray[np.float64]:
    """Intersection over union, float64[n, m], of boxes [n, 4] and [m, 4]; 0 of two that have no area."""
    first, second = a[:, :4].astype(np.float64).T, b[:, :4].astype(np.float64).T
    height = np.minimum.outer(first[2], second[2]) - np.maximum.outer(first[0], second[0])
    width = np.minimum.outer(first[3], second[3]) - np.maximum.outer(first[1], second[1])
    shared = np.maximum(0.0, height) * np.maximum(0.0, width)
    union = np.add.outer(areas(a), areas(b)) - shared
    return np.divide(shared, union, out=np.zeros_like(shared), where=union > 0)
