"""Non-maximum suppression on CPUs: threads divide frames; a kept box is compared with a vector of boxes at a time."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..cpu.compiled import compiled
from ..cpu.parallel import parallel_for
from ..spec import Float32
from . import ABSENT, Boxes, Groups, check

PROVIDER = "custom"
DEVICES = ("cpu",)

_YMIN, _XMIN, _YMAX, _XMAX, _AREA = range(5)  # rows of the boxes of a frame, each contiguous


def nms(
    boxes: Boxes, scores: Float32, groups: Groups, threshold: float, kept: int, threads: int = 1
) -> NDArray[np.int32]:
    """int32[frames, kept]: indices of the kept boxes by descending score, padded with -1."""
    check(boxes.shape, scores.shape, groups.shape, threshold, kept)
    found = np.full((len(boxes), kept), ABSENT, np.int32)
    valid_counts = scores > -np.inf
    order = np.argsort(np.where(valid_counts, -scores, np.inf), axis=1, kind="stable")
    given = (np.ascontiguousarray(boxes), np.ascontiguousarray(groups), order, np.count_nonzero(valid_counts, axis=1))
    if found.size:
        _on_threads(min(threads, len(boxes)), *given, float(threshold), found)
    return found


@compiled
def _on_threads(
    threads: Any, boxes: Any, groups: Any, order: Any, valid_counts: Any, threshold: Any, found: Any
) -> None:
    parallel_for(_thread_frames, threads, (threads, boxes, groups, order, valid_counts, threshold, found))


@compiled
def _thread_frames(
    thread: Any, threads: Any, boxes: Any, groups: Any, order: Any, valid_counts: Any, threshold: Any, found: Any
) -> None:
    """The frames of one thread."""
    for frame in range(thread, len(boxes), threads):
        _frame(boxes[frame], groups[frame], order[frame][: valid_counts[frame]], threshold, found[frame])


@compiled
def _frame(boxes: Any, groups: Any, order: Any, threshold: Any, found: Any) -> None:
    """One frame; `order`: its valid boxes by descending score."""
    rows, group = _sorted(boxes, groups, order)
    suppressed = np.zeros(len(order), np.uint8)
    chosen = 0
    for place in range(len(order)):
        if chosen == len(found):
            break
        if suppressed[place] == 0:
            found[chosen] = order[place]
            chosen += 1
            _suppress(rows, group, place, threshold, suppressed)


@compiled
def _sorted(boxes: Any, groups: Any, order: Any) -> Any:
    """Edges and areas, float64[5, boxes], and groups, in that order."""
    rows, group = np.empty((5, len(order)), np.float64), np.empty(len(order), np.int32)
    for place in range(len(order)):
        box = boxes[order[place]]
        for edge in range(4):
            rows[edge, place] = box[edge]
        height = max(0.0, rows[_YMAX, place] - rows[_YMIN, place])
        rows[_AREA, place] = height * max(0.0, rows[_XMAX, place] - rows[_XMIN, place])
        group[place] = groups[order[place]]
    return rows, group


@compiled
def _suppress(rows: Any, group: Any, place: Any, threshold: Any, suppressed: Any) -> None:
    """Mark later boxes that the box at `place` suppresses; without branches, so that the loop is vectorised."""
    ymin, xmin, ymax, xmax, area = rows[0, place], rows[1, place], rows[2, place], rows[3, place], rows[4, place]
    after = place + 1  # slices that start there: an index that might be negative would prevent vectorisation
    tops, lefts, bottoms, rights = rows[0][after:], rows[1][after:], rows[2][after:], rows[3][after:]
    areas, groups, group_, marks = rows[4][after:], group[after:], group[place], suppressed[after:]
    for other in range(len(marks)):
        height = max(0.0, min(ymax, bottoms[other]) - max(ymin, tops[other]))
        width = max(0.0, min(xmax, rights[other]) - max(xmin, lefts[other]))
        shared = height * width
        marks[other] |= (groups[other] == group_) & (shared > threshold * (area + areas[other] - shared))
