"""Augmentation of climate fields: rotation about the Earth's axis, and reflection at the equator.

Both are symmetries of the equations of motion except for land and seasons. Under reflection, meridional winds change
their sign and zonal winds do not. A transform is a pure function of (seed, member, epoch, position in the epoch) and
does not depend on the rank.
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
SIGNS = np.isin(np.arange(len(CHANNELS)), MERIDIONAL)  # bool[16]: channels that change their sign under reflection
_COLUMNS, _MIRROR = 0, 1  # parts of the stream


def drawn_transforms(seed: int, member: int, draws: Integers, width: int) -> Transforms:
    """Transforms of a member's draws (int64), numbered through all epochs; width in columns."""
    columns = below(width, seed, stream(Purpose.FIELD_TRANSFORMS, member, _COLUMNS), draws)
    return np.column_stack([columns, below(2, seed, stream(Purpose.FIELD_TRANSFORMS, member, _MIRROR), draws)])


def of_epoch(
    seed: int, member: int, epoch: int, shard: Shard, width: int, start: int = 0, stop: int | None = None
) -> Iterator[Transforms]:
    """Transforms of the steps start … stop - 1 (None: to the end) of one rank's epoch, as `order.training_indices`."""
    for step in range(start, shard.steps if stop is None else stop):
        yield drawn_transforms(seed, member, epoch * shard.n + shard.step_positions(step), width)


def unchanged(n: int) -> Transforms:
    """Identity transforms."""
    return np.zeros((n, 2), np.int64)


def transformed_fields(fields: Fields, turns: Transforms, out: Fields) -> None:
    """Write transformed fields [n, 16, H, W] into `out` of the same shape and any type, in separate memory.

    Correct for raw fields, and for normalised ones if the winds of MERIDIONAL were not shifted.
    """
    for field, (columns, mirrored), place in zip(fields, turns.tolist(), out, strict=True):
        seen = field[:, ::-1] if mirrored else field
        rest = field.shape[2] - columns
        place[..., columns:], place[..., :columns] = seen[..., :rest], seen[..., rest:]
        if mirrored:
            winds = place[list(MERIDIONAL)]
            place[list(MERIDIONAL)] = -winds


def transformed_boxes(boxes: Boxes, turns: Transforms, height: int, width: int) -> Boxes:
    """Boxes int32[n, 15, 5] of the transformed fields; of a box that crosses the map's edge the wider part."""
    frames, places = np.nonzero(boxes[:, :, 4] != UNUSED)
    rows = np.column_stack([frames, boxes[frames, places].astype(np.int64)])
    columns, mirrored = turns[frames].T
    rows[:, [2, 4]] += columns[:, None]
    rows[:, [1, 3]] = np.where(mirrored[:, None] == 1, height - rows[:, [3, 1]], rows[:, [1, 3]])
    return placed(rows, len(boxes), width)[0]
