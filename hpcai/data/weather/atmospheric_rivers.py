"""Atmospheric rivers: curved filaments of moist air moving polewards; the box encloses the filament's mask."""

import numpy as np

from hpcai.data.weather.layout import PRECT, QREFHT, TMQ, U850, UBOT, V850, VBOT
from hpcai.data.weather.random_waves import RADIUS
from hpcai.data.weather.storms import grown
from hpcai.data.weather.tracks import Event
from hpcai.kernels.cpu.compiled import compiled

DEGREE = np.pi / 180 * RADIUS  # m
MASK = 0.4  # least share of a river's largest moisture inside its mask
Place = tuple[float, float, float]
Course = tuple[float, float, float, float]
Flow = tuple[float, float]


def river(event: Event, enlarged: float) -> tuple[Place, Course, Flow]:
    """The arguments of `paint` for an event at its age."""
    strength, size, shape, tilt = event.draws[:4]
    power = (0.8 + 0.4 * strength) * grown(event, 0.4, 3)
    half = 1.3e6 * (0.8 + 0.4 * size)
    return (
        (event.latitude, event.longitude, enlarged),
        (half, 2.0e5 * (0.8 + 0.4 * size), np.radians(22 + 20 * tilt), 0.35 * (2 * shape - 1)),
        (22 * power, 14 * power),
    )


@compiled
def paint(fields, place, course, flow):  # type: ignore[no-untyped-def]
    """Add a river to fields, float32[16, H, W]; returns first and last row and column of its mask, columns not wrapped.

    place: latitude, longitude in degrees, enlargement. course: half the length in m, width in m, angle of the axis from
    east towards the pole, bend as a share of half the length. flow: water in kg/m2, wind in m/s.
    """
    latitude, longitude, enlarged = place
    height, width = fields.shape[1], fields.shape[2]
    pole = 1.0 if latitude > 0 else -1.0
    per_row, per_column = 180 / height * DEGREE / enlarged, 360 / width * DEGREE / enlarged
    per_column *= np.cos(np.radians(latitude))
    row, column = (latitude + 90) * height / 180 - 0.5, longitude * width / 360 - 0.5
    reach = 1.2 * course[0]
    tall, wide = reach / per_row, min(reach / per_column, width / 2 - 1)
    low, high, left, right = height, -1, 2 * width, -2 * width
    for i in range(max(0, int(row - tall)), min(height, int(row + tall) + 2)):
        for j in range(int(np.floor(column - wide)), int(column + wide) + 2):
            moist, slope = _moisture((j - column) * per_column, (i - row) * per_row * pole, course)
            if moist > 0.01:
                _add(fields[:, i, j % width], pole, moist, slope, flow)
            if moist > MASK:
                low, high, left, right = min(low, i), max(high, i), min(left, j), max(right, j)
    return low, left, high, right


@compiled
def _moisture(east, north, course):  # type: ignore[no-untyped-def]
    """Moisture at a point, 0 to 1, and direction of the filament, radians from east towards the pole."""
    half, width, axis, bend = course
    along = (east * np.cos(axis) + north * np.sin(axis)) / half
    across = -east * np.sin(axis) + north * np.cos(axis) - bend * half * (1 - along * along)
    slope = np.arctan(-2 * bend * along)
    ends = max(1 - along**4, 0.0)
    return ends * np.exp(-((across * np.cos(slope) / width) ** 2)), axis + slope


@compiled
def _add(cell, pole, moist, slope, flow):  # type: ignore[no-untyped-def]
    water, wind = flow[0] * moist, flow[1] * moist
    cell[TMQ] += water
    cell[QREFHT] += 1.2e-4 * water
    cell[PRECT] += 1.5e-8 * water * moist
    cell[U850] += wind * np.cos(slope)
    cell[V850] += wind * np.sin(slope) * pole
    cell[UBOT] += 0.6 * wind * np.cos(slope)
    cell[VBOT] += 0.6 * wind * np.sin(slope) * pole
