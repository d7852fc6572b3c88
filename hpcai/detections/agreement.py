"""How far two detectors agree on a frame."""

from math import fsum

import numpy as np

from hpcai.detections import CLASS, SCORE, Detections
from hpcai.detections.boxes import iou

LEAST = 0.5  # overlap of boxes that are taken for the same


def agreement(a: Detections, b: Detections) -> float:
    """1 where both find the same boxes with the same scores, and nothing else; 0 where they share none.

    Boxes of one class that overlap by LEAST or more make pairs, those of the highest overlap first. A pair counts its
    overlap times the lower of its scores; the sum is taken twice, over that of all scores. Where neither finds anything
    they agree. The order of the rows does not matter.
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
    """How many pairs of neighbours there are among models, the last of which is the first one's."""
    return models if models > 2 else models - 1
