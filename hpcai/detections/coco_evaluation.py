"""Mean average precision by COCO's evaluation, at one overlap (IoU); frames can be matched by different ranks.

At most 100 detections of a frame count, those with the highest scores. In each class, from the highest score down, a
detection hits the true box it overlaps most of those that are not hit yet, if by `iou` or more. Precision is made
monotone and read at 101 recalls, 0 to 1. Boxes of all areas count, none is ignored. Source: Lin et al., Microsoft COCO,
ECCV 2014 (arXiv:1405.0312), and its published evaluation, which decides where the paper is silent.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hpcai.detections import CLASS, MOST, SCORE, Detections, Truths
from hpcai.detections.boxes import iou as overlaps

RECALLS = np.linspace(0.0, 1.0, 101)
LARGEST = 1.0 - 1e-10  # cap of the threshold: two equal boxes reach it, however they are rounded
# A matched detection. Of equal scores that of the earlier frame comes first, then that of the lower rank in it.
ROW = np.dtype([("frame", "<i8"), ("rank", "<i4"), ("class", "<i4"), ("score", "<f4"), ("hit", "<i4")])


@dataclass(frozen=True)
class Matches:
    """Matched detections of some frames, and the number of true boxes of each class in them."""

    rows: NDArray[Any]  # of ROW, [n]
    truths: NDArray[np.int64]  # [classes]


def matched(
    frames: Iterable[int], detections: Iterable[Detections], truths: Iterable[Truths], iou: float, classes: int
) -> Matches:
    """Match the detections of frames with their true boxes; each frame once, with its number in the whole set."""
    parts, counted = [np.empty(0, ROW)], np.zeros(classes, np.int64)
    for frame, found, true in zip(frames, detections, truths, strict=True):
        known = true[true[:, SCORE] >= 0]
        if (known[:, SCORE] >= classes).any() or not np.isin(found[:, CLASS], np.arange(classes)).all():
            raise ValueError(f"frame {frame}: a class is none of 0 to {classes - 1}")
        parts.append(_match_frame(frame, found, known, iou, classes))
        counted += np.bincount(known[:, SCORE].astype(np.int64), minlength=classes)
    return Matches(np.concatenate(parts), counted)


def _match_frame(frame: int, found: Detections, true: Truths, iou: float, classes: int) -> NDArray[Any]:
    """The rows of a frame, the highest score first."""
    best = found[np.argsort(-found[:, SCORE], kind="stable")[:MOST]]
    rows = np.empty(len(best), ROW)
    rows["frame"], rows["rank"], rows["hit"] = frame, np.arange(len(best)), 0
    rows["class"], rows["score"] = best[:, CLASS], best[:, SCORE]
    for label in range(classes):
        of_class = np.flatnonzero(best[:, CLASS] == label)
        rows["hit"][of_class] = _hits(overlaps(best[of_class], true[true[:, SCORE] == label]), iou)
    return rows


def _hits(overlap: NDArray[np.float64], iou: float) -> NDArray[np.bool_]:
    """Which detections, in the order of their scores, hit a true box; of equal overlaps the last is taken."""
    hits, free = np.zeros(len(overlap), bool), np.ones(overlap.shape[1], bool)
    least = min(iou, LARGEST)
    for place in np.flatnonzero((overlap >= least).any(axis=1)):
        left = np.where(free, overlap[place], -1.0)
        taken = len(left) - 1 - int(left[::-1].argmax())
        hits[place] = left[taken] >= least
        free[taken] &= not hits[place]
    return hits


def average_precision(matches: Matches) -> NDArray[np.float64]:
    """Average precision of each class, float64[classes]; NaN of a class without true boxes.

    The result does not depend on the order of the rows, nor on which rank matched them.
    """
    rows = matches.rows[np.lexsort((matches.rows["rank"], matches.rows["frame"], -matches.rows["score"]))]
    of_class = (rows["hit"][rows["class"] == label] for label in range(len(matches.truths)))
    pairs = zip(of_class, matches.truths.tolist(), strict=True)
    return np.array([_average(hits, true) if true else np.nan for hits, true in pairs])


def _average(hits: NDArray[np.int32], truths: int) -> float:
    """The mean of the precision at 101 recalls; 0 at those that are not reached."""
    right = np.cumsum(hits)
    precision = right / np.arange(1, len(hits) + 1)
    falling = np.maximum.accumulate(precision[::-1])[::-1]
    places = np.searchsorted(right / truths, RECALLS, side="left")
    return float(np.append(falling, 0.0)[places].mean())


def mean_average_precision(averages: NDArray[np.float64]) -> float:
    """The mean over the classes that have true boxes; NaN if none has."""
    there = averages[~np.isnan(averages)]
    return float(there.mean()) if len(there) else float("nan")
