"""Agreement of two detectors on a frame, from 0 to 1."""

from math import fsum

import numpy as np

from hpcai.detections import CLASS, SCORE, Detections
from hpcai.detections.boxes import iou

LEAST = 0.5  # smallest overlap of matching boxes


def agreement(a: Detections, b: Detections) -> float:
    """1 if both detect the same boxes with the same scores; 0 if they share none.

    Boxes of one class that overlap by LEAST or more are paired, highest overlap first. A pair contributes its overlap
    times the lower of its scores; the sum is taken twice, over the sum of all scores. Two detectors without detections
    agree. The order of the rows does not matter.
    """
    a, b = (rows[np.lexsort(rows.T)] for rows in (a, b))
    whole = fsum((*a[:, SCORE], *b[:, SCORE]))  # exact, so that equal detections agree by exactly 1
    if whole == 0 or np.array_equal(a, b):
        return 1.0
    overlap = np.where(np.equal.outer(a[:, CLASS], b[:, CLASS]), iou(a, b), 0.0)
    shared = []
    while overlap.size and (best := overlap.max()) >= LEAST:
        one, other = np.unravel_index(int(overlap.argmax()), overlap.shape)
        shared.append(best * float(min(a[one, SCORE], b[other, SCORE])))
        overlap[one], overlap[:, other] = 0.0, 0.0
    return 2 * fsum(shared) / whole


def pairs(models: int) -> int:
    """Number of pairs of neighbouring models, the last of which is a neighbour of the first."""
    return models if models > 2 else models - 1
