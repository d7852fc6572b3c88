"""Cleaning of the boxes of a file: boxes inside the frame; longitude is periodic, latitude is not.

Of a box that crosses the edge of the map the wider part is kept, as in generated weather and in augmented fields.
"""

from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray

from hpcai.data.philox import Integers
from hpcai.data.weather.layout import BOXES, CLASSES, UNUSED
from hpcai.data.weather.weather_dataset import Boxes

Rows = NDArray[np.int64]  # [n, 6]: frame, then the row


@dataclass(frozen=True)
class Faults:
    """Numbers of irregular boxes of a file.

    Boxes that are degenerate, of an unknown class, or entirely outside the map are dropped.
    """

    boxes: int = 0  # rows that are used
    wrapped: int = 0  # across the edge of the map: the wider part is kept
    outside: int = 0  # beyond the first or last row: clipped, or dropped
    degenerate: int = 0  # empty or inverted
    unknown: int = 0  # of an unknown class
    crowded: int = 0  # beyond the rows of a frame
    misplaced: int = 0  # frames with an unused row before a used one: rows moved up

    def __add__(self, other: "Faults") -> "Faults":
        own, others = asdict(self), asdict(other)
        return Faults(**{name: own[name] + others[name] for name in own})

    def __str__(self) -> str:
        return ", ".join(f"{number} {name}" for name, number in asdict(self).items() if number) or "no boxes"


def cleaned(raw: NDArray[np.integer], height: int, width: int) -> tuple[Boxes, Faults]:
    """Boxes int32[n, 15, 5] within the frame, used rows first, from the rows [n, m, 5] of a file, and their faults.

    A box with xmax < xmin, or beyond one edge of the map, crosses the edge, and its wider part is kept. A box with
    xmax < xmin that would be wider than half the map is inverted, and dropped.
    """
    given = raw.astype(np.int64)
    used = (given != UNUSED).any(2)
    frames, _ = np.nonzero(used)
    rows = np.column_stack([frames, given[used]])
    known = (rows[:, 5] >= 0) & (rows[:, 5] < len(CLASSES))
    _, top, left, bottom, right, _ = rows.T
    across = right < left
    right = right + width * across
    sound = known & (bottom > top) & (right > left) & ~(across & (2 * (right - left) > width)) & (right - left <= width)
    outside = sound & ((top < 0) | (bottom > height))
    rows[:, 1], rows[:, 3], rows[:, 4] = top.clip(0, height), bottom.clip(0, height), right
    kept = rows[sound & (rows[:, 3] > rows[:, 1])]
    boxes, crossing, crowded = placed(kept, len(raw), width)
    counts = (known & ~sound, ~known, outside, (~used[:, :-1] & used[:, 1:]).any(1))
    degenerate, unknown, cut, misplaced = (int(np.count_nonzero(each)) for each in counts)
    return boxes, Faults(len(rows), crossing, cut, degenerate, unknown, crowded, misplaced)


def placed(rows: Rows, n: int, width: int) -> tuple[Boxes, int, int]:
    """Boxes int32[n, 15, 5] of rows with periodic columns; of a box that crosses the edge the wider part.

    Also returns the numbers of boxes that cross the edge, and of boxes beyond the rows of a frame.
    """
    rows = rows - (rows[:, 2] // width * width)[:, None] * np.array([0, 0, 1, 0, 1, 0])
    over = rows[:, 4] > width
    rest = rows[:, 4] - width
    begins_here = ~over | (width - rows[:, 2] >= rest)
    rows[:, 2] = np.where(begins_here, rows[:, 2], 0)
    rows[:, 4] = np.where(begins_here, rows[:, 4].clip(max=width), rest)
    boxes, crowded = _filled(rows, n)
    return boxes, int(np.count_nonzero(over)), crowded


def targets(boxes: Boxes, classes: tuple[int, ...]) -> NDArray[np.float32]:
    """Training targets float32[n, 15, 5]: boxes with the detector's class numbers; other classes are dropped.

    classes are those of `Weather`; used rows are first, unused ones are -1.
    """
    numbers = np.full(len(CLASSES) + 1, UNUSED, np.int32)
    numbers[list(classes)] = np.arange(len(classes))
    found = numbers[boxes[..., 4]]  # the last of the numbers is that of unused rows
    rows = np.concatenate([boxes[..., :4], found[..., None]], 2).astype(np.float32)
    rows[found == UNUSED] = UNUSED
    return np.take_along_axis(rows, np.argsort(found == UNUSED, axis=1, kind="stable")[..., None], 1)


def _filled(rows: Rows, n: int) -> tuple[Boxes, int]:
    """The rows of each frame, in the given order; and the number of rows beyond BOXES."""
    boxes = np.full((n, BOXES, 5), UNUSED, np.int32)
    rows = rows[np.argsort(rows[:, 0], kind="stable")]
    places = _rank_in_run(rows[:, 0])
    fits = places < BOXES
    boxes[rows[fits, 0], places[fits]] = rows[fits, 1:]
    return boxes, int(np.count_nonzero(~fits))


def _rank_in_run(ordered: Integers) -> Integers:
    """Number of equal predecessors of each of ascending numbers."""
    return np.arange(len(ordered)) - np.searchsorted(ordered, ordered)
