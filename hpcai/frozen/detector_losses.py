"""The four losses of a detector in plain NumPy, one candidate after the other.

Sources: Ren et al., Faster R-CNN (2015), eq. 1; Girshick, Fast R-CNN (2015), eq. 1; boxes: Girshick et al., Rich
Feature Hierarchies (2014), appendix C.
"""

from collections.abc import Sequence
from math import exp, log, log1p
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Doubles = NDArray[np.float64]

BEND = 1 / 9  # of the smooth L1 loss
ANCHOR_SCALES, REGION_SCALES = (1.0, 1.0), (10.0, 5.0)


class Candidate(NamedTuple):
    """A sampled anchor or region, its true box, both [ymin, xmin, ymax, xmax]; label: -1 not used, 0 background."""

    place: Sequence[float]
    true: Sequence[float]
    label: int


def score_loss_of_anchors(scores: Sequence[float], chosen: Sequence[Candidate]) -> float:
    """Binary cross entropy of scores (logits), over all candidates that may be sampled."""
    each = (
        _softplus(-score if one.label else score) * (one.label >= 0) for score, one in zip(scores, chosen, strict=True)
    )
    return sum(each) / len(chosen)


def score_loss_of_regions(scores: Doubles, chosen: Sequence[Candidate]) -> float:
    """Cross entropy of scores [candidates, 1 + classes] (logits), background first."""
    each = (log(sum(map(exp, row))) - row[one.label] for row, one in zip(scores, chosen, strict=True) if one.label >= 0)
    return float(sum(each)) / len(chosen)


def offset_loss(offsets: Doubles, chosen: Sequence[Candidate], scales: tuple[float, float]) -> float:
    """Smooth L1 loss of the foreground's offsets [candidates, 4] from those of the true boxes."""
    found = 0.0
    for own, one in zip(offsets, chosen, strict=True):
        if one.label > 0:
            found += sum(_smooth(float(apart)) for apart in own - _encoded(one.place, one.true, scales))
    return found / len(chosen)


def _encoded(place: Sequence[float], true: Sequence[float], scales: tuple[float, float]) -> Doubles:
    moves = [((true[i] + true[i + 2]) - (place[i] + place[i + 2])) / 2 / (place[i + 2] - place[i]) for i in (0, 1)]
    growth = [log((true[i + 2] - true[i]) / (place[i + 2] - place[i])) for i in (0, 1)]
    return np.array([scales[0] * move for move in moves] + [scales[1] * grown for grown in growth])


def _smooth(difference: float) -> float:
    size = abs(difference)
    return size * size / (2 * BEND) if size < BEND else size - BEND / 2


def _softplus(x: float) -> float:
    """log(1 + exp(x))."""
    return x + log1p(exp(-x)) if x > 0 else log1p(exp(x))
