"""How far two detectors agree on a frame."""

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
    whole = float(a[:, SCORE].sum() + b[:, SCORE].sum())
    if whole == 0:
        return 1.0
    overlap = np.where(np.equal.outer(a[:, CLASS], b[:, CLASS]), iou(a, b), 0.0)
    shared = 0.0
    while overlap.size and (best := overlap.max()) >= LEAST:
        one, other = np.unravel_index(int(overlap.argmax()), overlap.shape)
        shared += best * float(min(a[one, SCORE], b[other, SCORE]))
        overlap[one], overlap[:, other] = 0.0, 0.0
    return 2 * shared / whole
