"""Non-maximum suppression box by box. Frozen: made to be obvious, not fast."""

import numpy as np
from numpy.typing import NDArray

from ..spec import Float32, Float64
from . import ABSENT, Boxes, Groups, check


def nms(boxes: Boxes, scores: Float32, groups: Groups, threshold: float, kept: int) -> NDArray[np.int32]:
    """int32[frames, kept]: indices of the kept boxes by descending score, padded with -1."""
    check(boxes.shape, scores.shape, groups.shape, threshold, kept)
    found = np.full((len(boxes), kept), ABSENT, np.int32)
    for frame in range(len(boxes)):
        chosen = _chosen(boxes[frame].astype(np.float64), scores[frame], groups[frame], threshold)[:kept]
        found[frame, : len(chosen)] = chosen
    return found


def _chosen(boxes: Float64, scores: Float32, groups: Groups, threshold: float) -> list[int]:
    """All kept boxes."""
    chosen: list[int] = []
    for box in np.argsort(-scores, kind="stable").tolist():
        rivals = [other for other in chosen if groups[other] == groups[box]]
        if scores[box] > -np.inf and not any(overlap(boxes[other], boxes[box], threshold) for other in rivals):
            chosen.append(box)
    return chosen


def overlap(a: Float64, b: Float64, threshold: float) -> bool:
    """Whether the intersection exceeds the threshold as a share of the union."""
    height = max(0.0, min(a[2], b[2]) - max(a[0], b[0]))
    width = max(0.0, min(a[3], b[3]) - max(a[1], b[1]))
    shared = height * width
    return bool(shared > threshold * (area(a) + area(b) - shared))


def area(box: Float64) -> float:
    """Area of a half-open box."""
    return float(max(0.0, box[2] - box[0]) * max(0.0, box[3] - box[1]))
