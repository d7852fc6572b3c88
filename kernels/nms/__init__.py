"""Non-maximum suppression: among boxes with large overlap, only the one with the highest score is kept.

Greedy: boxes are visited by descending score, equal scores by ascending index. A box is kept unless a kept box of its
group overlaps it by more than the threshold. Boxes are half-open [ymin, xmin, ymax, xmax]; negative sides count as 0.
Overlap is intersection over union, compared as intersection > threshold x union, in float64 and in the order of
operations of reference.py, so that every backend keeps the same boxes. A score that is not above -inf marks an absent
box.
"""

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..spec import Float32, Spec

ABSENT = -1  # padding of the kept indices

Boxes: TypeAlias = Float32  # [frames, boxes, 4], finite
Groups: TypeAlias = NDArray[np.int32]  # [frames, boxes]; boxes of different groups do not suppress each other


@dataclass(frozen=True)
class Shape:
    """`frames` frames of `boxes` boxes each, of which at most `kept` are kept."""

    frames: int
    boxes: int
    kept: int


def operations(shape: Shape) -> int:
    """Upper bound of the operations; the number of compared pairs depends on the boxes."""
    # a box: two sides (2), none below 0 (2), their product (1)
    of_box = 2 + 2 + 1
    # a pair: the intersection's edges (4), sides (2), none below 0 (2), product (1); union (2), scaled (1), compared
    of_pair = 4 + 2 + 2 + 1 + 2 + 1 + 1
    first = min(shape.kept, shape.boxes)  # only kept boxes suppress others
    pairs = first * shape.boxes - first * (first + 1) // 2
    return shape.frames * (of_box * shape.boxes + of_pair * pairs)


def nbytes(shape: Shape, direction: str = "", dtype: str = "fp32") -> int:
    """Bytes: boxes, scores and groups read, indices of kept boxes written."""
    return 4 * shape.frames * ((4 + 1 + 1) * shape.boxes + shape.kept)


def exact(inner: int) -> float:
    """Tolerance: indices must be equal."""
    return 0.0


SPEC = Spec[Shape](name="nms", operations=operations, nbytes=nbytes, tolerance=exact)


def check(
    boxes: tuple[int, ...], scores: tuple[int, ...], groups: tuple[int, ...], threshold: float, kept: int
) -> None:
    """Raise ValueError unless shapes match and values are possible; backends do not check again."""
    if len(boxes) != 3 or boxes[2] != 4 or boxes[:2] != tuple(scores) or tuple(scores) != tuple(groups):
        raise ValueError(f"boxes {boxes}, scores {scores} and groups {groups} do not fit together")
    if not 0.0 <= threshold <= 1.0 or kept < 0:
        raise ValueError(f"threshold {threshold} is not within 0 and 1, or {kept} boxes cannot be kept")
