"""Augmentation of climate fields: turned round the Earth's axis, and north and south exchanged.

Both are symmetries of the equations of motion but for land and seasons; mirrored at the equator, winds along the
meridians change their sign and those along the parallels do not. A turn is a pure function of (seed, member, epoch,
position in the epoch): the same whichever rank takes the position.
"""

from collections.abc import Iterator

import numpy as np

from hpcai.data.order import Shard
from hpcai.data.philox import Integers, Purpose, below, stream
from hpcai.data.weather.box_cleaning import placed
from hpcai.data.weather.layout import CHANNELS, UNUSED, V850, VBOT
from hpcai.data.weather.weather_dataset import Boxes, Fields

Transforms = Integers  # [n, 2]: columns to the east; 1 where mirrored, else 0

MERIDIONAL = (V850, VBOT)
SIGNS = np.isin(np.arange(len(CHANNELS)), MERIDIONAL)  # bool[16]: which channels change their sign
_COLUMNS, _MIRROR = 0, 1  # parts of the stream


def drawn_transforms(seed: int, member: int, draws: Integers, width: int) -> Transforms:
    """Turns of a member's draws (int64), counted through all its epochs; width in columns."""
    columns = below(width, seed, stream(Purpose.FIELD_TRANSFORMS, member, _COLUMNS), draws)
    return np.column_stack([columns, below(2, seed, stream(Purpose.FIELD_TRANSFORMS, member, _MIRROR), draws)])


def of_epoch(
    seed: int, member: int, epoch: int, shard: Shard, width: int, start: int = 0, stop: int | None = None
) -> Iterator[Transforms]:
    """Turns of the steps start … stop - 1 (None: to the end) of one rank's epoch, beside `order.training_indices`."""
    for step in range(start, shard.steps if stop is None else stop):
        yield drawn_transforms(seed, member, epoch * shard.n + shard.step_positions(step), width)


def unchanged(n: int) -> Transforms:
    """Turns that change nothing."""
    return np.zeros((n, 2), np.int64)


def transformed_fields(fields: Fields, turns: Transforms, out: Fields) -> None:
    """Writes turned fields [n, 16, H, W] into `out` of the same shape and another memory; whatever its type.

    Right for raw fields, and for normalised ones where the winds of MERIDIONAL were not shifted.
    """
    for field, (columns, mirrored), place in zip(fields, turns.tolist(), out, strict=True):
        seen = field[:, ::-1] if mirrored else field
        rest = field.shape[2] - columns
        place[..., columns:], place[..., :columns] = seen[..., :rest], seen[..., rest:]
        if mirrored:
            winds = place[list(MERIDIONAL)]
            place[list(MERIDIONAL)] = -winds


def transformed_boxes(boxes: Boxes, turns: Transforms, height: int, width: int) -> Boxes:
    """Boxes int32[n, 15, 5] that belong to the turned fields; of those that now cross the map's edge the wider part."""
    frames, places = np.nonzero(boxes[:, :, 4] != UNUSED)
    rows = np.column_stack([frames, boxes[frames, places].astype(np.int64)])
    columns, mirrored = turns[frames].T
    rows[:, [2, 4]] += columns[:, None]
    rows[:, [1, 3]] = np.where(mirrored[:, None] == 1, height - rows[:, [3, 1]], rows[:, [1, 3]])
    return placed(rows, len(boxes), width)[0]
