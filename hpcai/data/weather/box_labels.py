"""Boxes and classes of the events of a generated frame: whole pixels, cut at longitude 0 and at the poles."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from hpcai.data.philox import Purpose, stream
from hpcai.data.weather.layout import BOXES, PSL, T200, T500, U850, UBOT, UNUSED, V850, VBOT
from hpcai.data.weather.random_waves import RADIUS, Field, uniform
from hpcai.data.weather.storms import Storm
from hpcai.data.weather.weather_dataset import Boxes
from hpcai.data.weather.zonal_means import latitudes

Box = tuple[int, int, int, int]  # ymin, xmin, ymax, xmax, half-open
Labelled = tuple[int, int, int, int, int]

# Criteria of TECA for the centre of a cyclone (Prabhat et al., Procedia Computer Science 9, 2012, 866-876).
VORTICITY, RISE, WARMER, WITHIN = 1.6e-4, 400.0, 0.8, 5.0  # 1/s, Pa, K, degrees
CYCLONE = 17.0  # m/s near the ground: least wind of a cyclone; below it is a depression

DROPPED, SPURIOUS = 0.04, 0.04  # share of events without a label, of labels without an event
LABEL_PART = 16  # of the draws' streams
TRIES = 4  # attempts to place a spurious label where it overlaps no event
_OVERLAP = 0.1  # intersection over union above which boxes overlap


def ceiling() -> float:
    """Average precision of a detector that finds every event and nothing else, the same for each class.

    A share 1 - d of its detections is labelled, and these are a share 1 - s of all labels.
    """
    return (1 - DROPPED) * (1 - SPURIOUS)


def bounds(storm: Storm, height: int, width: int) -> Box:
    """The box of a storm, columns not wrapped."""
    latitude, longitude, _, enlarged, _ = storm.place
    degree = np.pi / 180 * RADIUS
    east = storm.half[0] * enlarged / (degree * np.cos(np.radians(latitude))) * width / 360
    north = storm.half[1] * enlarged / degree * height / 180
    row, column = (latitude + 90) * height / 180, longitude * width / 360
    return round(row - north), round(column - east), round(row + north), round(column + east)


def cut(box: Box, height: int, width: int) -> Box:
    """The part of a box inside the grid; the wider part if it crosses longitude 0."""
    ymin, xmin, ymax, xmax = box
    offset = xmin // width * width
    xmin, xmax = xmin - offset, min(xmax - offset, xmin - offset + width)
    if xmax > width:
        xmin, xmax = (xmin, width) if width - xmin >= xmax - width else (0, xmax - width)
    return max(ymin, 0), xmin, min(ymax, height), xmax


def vorticity(fields: Field, row: int, column: int) -> float:
    """Relative vorticity at 850 hPa at a point, by central differences, 1/s; positive for cyclones."""
    height, width = fields.shape[1:]
    step, latitude = np.pi * RADIUS / height, float(latitudes(height)[row])
    dv = fields[V850, row, (column + 1) % width] - fields[V850, row, (column - 1) % width]
    shear = fields[U850, row + 1, column] - fields[U850, row - 1, column]
    along = 2 * np.pi * RADIUS * np.cos(np.radians(latitude)) / width
    return float((dv / along - shear / step) / 2 * np.sign(latitude))


def around(fields: Field, row: int, column: int) -> NDArray[np.float64]:
    """Means of PSL and of the temperature at 500 and 200 hPa, 5 degrees away from a point, less those at the point."""
    height, width = fields.shape[1:]
    angle = np.arange(32) * 2 * np.pi / 32
    narrow = np.cos(np.radians(latitudes(height)[row]))
    rows = np.clip(np.rint(row + WITHIN * height / 180 * np.sin(angle)), 0, height - 1).astype(int)
    columns = np.rint(column + WITHIN * width / 360 / narrow * np.cos(angle)).astype(int) % width
    ring = fields[[[PSL], [T500], [T200]], rows, columns].mean(axis=1) - fields[[PSL, T500, T200], row, column]
    return np.array([ring[0], (ring[1] + ring[2]) / 2])


def is_cyclone(fields: Field, row: int, column: int, tropical: bool) -> bool:
    """Whether a point is the centre of a storm by the criteria of TECA; tropical storms need a warm core."""
    rise, colder = around(fields, row, column)
    return vorticity(fields, row, column) >= VORTICITY and rise >= RISE and (not tropical or -colder >= WARMER)


def strongest_wind(fields: Field, row: int, column: int, rows: int, columns: int) -> float:
    """Strongest wind near the ground within that many rows and columns of a point, m/s."""
    columns_there = np.arange(column - columns, column + columns + 1) % fields.shape[2]
    part = fields[[UBOT, VBOT], max(row - rows, 0) : row + rows + 1][:, :, columns_there]
    return float(np.sqrt(np.square(part).sum(axis=0).max()))


def labels(found: Sequence[tuple[Labelled, int]], seed: int, year: int, t: int, height: int, width: int) -> Boxes:
    """Labels of a frame: some boxes are dropped, and some spurious boxes are added.

    found: boxes with classes, and the unique number of each event in the year.
    """
    rows: list[Labelled] = []
    events = [box for box, _ in found]
    for box, number in found:
        counters = (t << 16) + number * 8 + np.arange(2 + TRIES)
        draws = uniform(seed, stream(Purpose.GENERATED_WEATHER, year, LABEL_PART), counters)
        if draws[0] >= DROPPED:
            rows.append(box)
            if draws[1] < SPURIOUS / (1 - SPURIOUS):
                rows.extend(_elsewhere(box, events, draws[2:], height, width))
    table = np.full((BOXES, 5), UNUSED, np.int32)
    table[: len(rows[:BOXES])] = np.array(rows[:BOXES], np.int32).reshape(-1, 5)
    return table


def _elsewhere(
    box: Labelled, events: Sequence[Labelled], draws: NDArray[np.float64], height: int, width: int
) -> list[Labelled]:
    """The box moved along its parallel to where it overlaps no event."""
    for draw in draws:
        shift = round(width * (0.15 + 0.7 * float(draw)))
        moved = cut((box[0], box[1] + shift, box[2], box[3] + shift), height, width)
        if max(overlap(moved, event) for event in events) <= _OVERLAP:
            return [(*moved, box[4])]
    return []


def overlap(a: Sequence[int], b: Sequence[int]) -> float:
    """Intersection over union of two boxes."""
    common = max(min(a[2], b[2]) - max(a[0], b[0]), 0) * max(min(a[3], b[3]) - max(a[1], b[1]), 0)
    areas = (a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1])
    return common / (areas - common)
