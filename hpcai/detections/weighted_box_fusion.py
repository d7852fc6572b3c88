"""Weighted box fusion: merges the boxes that several models detected in a frame.

Source: Solovyev, Wang, Gabruseva, Weighted boxes fusion, Image and Vision Computing 107, 2021 (arXiv:1910.13302),
section 3. From the highest score down, a box joins the cluster of its class whose fused box it overlaps most, if by
more than a threshold, or begins one. A fused box has the mean of its cluster's coordinates, weighed by the scores, and
the mean of the scores (Eqs. 1 to 4), in the end times min(T, P) / P with T boxes of P models (Eq. 5).
"""

from collections.abc import Sequence

import numpy as np

from hpcai.detections import CLASS, MOST, SCORE, Detections
from hpcai.detections.boxes import areas, iou

THRESHOLD = 0.55  # the paper's


class _Clusters:
    """Clusters of one class: fused boxes, and the sums from which they are made."""

    def __init__(self, most: int) -> None:
        self.count = 0
        self.boxes = np.zeros((most, 4))
        self.weighed = np.zeros((most, 4))
        self.scores = np.zeros(most)
        self.found = np.zeros(most, np.int64)

    def take(self, box: Detections, threshold: float) -> None:
        """Add a box to the cluster it overlaps most, or start a new cluster."""
        place = self._place(box, threshold)
        self.count = max(self.count, place + 1)
        score = float(box[SCORE])
        self.weighed[place] += score * box[:4].astype(np.float64)
        self.scores[place] += score
        self.found[place] += 1
        self.boxes[place] = self.weighed[place] / self.scores[place]

    def _place(self, box: Detections, threshold: float) -> int:
        """The cluster it overlaps most, of equal ones the first; else a new one."""
        overlap = iou(box[None, :4], self.boxes[: self.count])[0]
        best = int(overlap.argmax()) if self.count else 0
        return best if self.count and overlap[best] > threshold else self.count

    def fused(self, models: int, label: int) -> Detections:
        """One row a cluster."""
        found, used = self.found[: self.count], slice(self.count)
        scores = self.scores[used] / found * (np.minimum(found, models) / models)
        columns = (self.boxes[used], scores, np.full(self.count, label))
        return np.column_stack(columns).astype(np.float32)


def fused(models: Sequence[Detections], threshold: float = THRESHOLD, most: int = MOST) -> Detections:
    """float32[n, 6], at most `most` rows, the highest score first, from each model's detections in a frame.

    The order of the models, and of the rows of each, does not matter. A box without area, or with a score of 0 or less,
    is ignored.
    """
    rows = np.concatenate([np.empty((0, 6), np.float32), *models])
    rows = _ordered(rows[(rows[:, SCORE] > 0) & (areas(rows) > 0)])
    parts = [np.empty((0, 6), np.float32)]
    for label in np.unique(rows[:, CLASS]):
        own = rows[rows[:, CLASS] == label]
        clusters = _Clusters(len(own))
        for box in own:
            clusters.take(box, threshold)
        parts.append(clusters.fused(len(models), label))
    return _ordered(np.concatenate(parts))[:most]


def _ordered(rows: Detections) -> Detections:
    """Rows by score, then by class and coordinates: independent of their former order."""
    return rows[np.lexsort((*(rows[:, edge] for edge in range(4)), rows[:, CLASS], -rows[:, SCORE]))]
