"""Vortices added to fields: wind, pressure, temperature, water and rain around a centre.

Radial profiles are those of Holland (1980), Monthly Weather Review 108, 1212-1218, or Gaussian, with the gradient
wind. Distances are taken in the plane that touches the Earth at the centre, directions with north polewards,
so that both hemispheres share one shape; `enlarged` stretches everything but the wind.
"""

import numpy as np

from hpcai.data.weather.layout import (
    PRECT,
    PS,
    PSL,
    QREFHT,
    T200,
    T500,
    TMQ,
    TREFHT,
    TS,
    U850,
    UBOT,
    V850,
    VBOT,
    Z200,
    Z1000,
    ZBOT,
)
from hpcai.data.weather.random_waves import RADIUS
from hpcai.data.weather.zonal_means import DENSITY, METRES
from hpcai.kernels.cpu.compiled import compiled

DEGREE = np.pi / 180 * RADIUS  # m
NEAREST = 1_000.0  # m from the centre: the profile is constant inside
FRICTION = 0.85  # wind near the ground over that at 850 hPa


@compiled
def paint(fields, place, hollow, wet, warmth):  # type: ignore[no-untyped-def]
    """Add a storm to fields, float32[16, H, W], south first.

    place: latitude, longitude in degrees, reach in m, how much it is enlarged, stretched eastwards.
    hollow: sign (-1: a high), depth in Pa, radius in m, Holland's B (0: Gaussian), Coriolis parameter > 0, inflow in
    radians, share of the wind before that is left at the centre.
    wet: water in kg/m2, its radius in m, arms of the spiral, share of the water that is outside of the arms.
    warmth: K at 500 and 200 hPa at the centre, K of the contrast of air masses, its tilt, m of Z200 for a pascal.
    """
    latitude, longitude, reach, enlarged, stretched = place
    height, width = fields.shape[1], fields.shape[2]
    pole = 1.0 if latitude > 0 else -1.0
    per_row, per_column = 180 / height * DEGREE / enlarged, 360 / width * DEGREE / enlarged
    per_column *= np.cos(np.radians(latitude))
    row, column = (latitude + 90) * height / 180 - 0.5, longitude * width / 360 - 0.5
    tall, wide = reach / stretched / per_row, min(reach * stretched / per_column, width / 2 - 1)
    for i in range(max(0, int(row - tall)), min(height, int(row + tall) + 2)):
        for j in range(int(np.floor(column - wide)), int(column + wide) + 2):
            north, east = (i - row) * per_row * pole, (j - column) * per_column
            r = max(np.hypot(east / stretched, north * stretched), NEAREST)
            if r < reach:
                _add(fields[:, i, j % width], pole, r, np.arctan2(north, east), reach, hollow, wet, warmth)


@compiled
def _add(cell, pole, r, angle, reach, hollow, wet, warmth):  # type: ignore[no-untyped-def]
    """Add the storm at one point, r metres from the centre."""
    sign, depth, radius, b, coriolis, inflow, left = hollow
    fade = (1 - (r / reach) ** 2) ** 2
    drop, wind = profile(r, depth, radius, b, coriolis)
    drop, wind = sign * drop * fade, sign * wind * fade
    near = np.exp(-((r / wet[1]) ** 2))
    _blow(cell, pole, angle, wind, inflow, 1 - (1 - left) * near)
    _press(cell, drop, warmth[4])
    _heat(cell, angle, r / radius, near * fade, sign, warmth)
    _wet(cell, sign * wet[0] * near * fade, _spiral(angle, r / radius, wet[2], wet[3]))


@compiled
def profile(r, depth, radius, b, coriolis):  # type: ignore[no-untyped-def]
    """Pressure deficit in Pa and gradient wind in m/s, r metres from the centre."""
    if b > 0:
        x = (radius / r) ** b
        drop, slope = depth * (1 - np.exp(-x)), depth * np.exp(-x) * x * b
    else:
        x = (r / radius) ** 2
        drop, slope = depth * np.exp(-x / 2), depth * np.exp(-x / 2) * x
    rotation = 0.5 * coriolis * r
    return drop, np.sqrt(rotation**2 + slope / DENSITY) - rotation


@compiled
def _blow(cell, pole, angle, wind, inflow, left):  # type: ignore[no-untyped-def]
    """Wind around the centre, with inflow near the ground."""
    cell[U850] = cell[U850] * left - wind * np.sin(angle)
    cell[V850] = cell[V850] * left + wind * np.cos(angle) * pole
    cell[UBOT] = cell[UBOT] * left - FRICTION * wind * np.sin(angle + inflow)
    cell[VBOT] = cell[VBOT] * left + FRICTION * wind * np.cos(angle + inflow) * pole


@compiled
def _press(cell, drop, aloft):  # type: ignore[no-untyped-def]
    cell[PS] -= drop * cell[PS] / cell[PSL]
    cell[PSL] -= drop
    cell[Z1000] -= drop * METRES
    cell[Z200] += drop * aloft


@compiled
def _heat(cell, angle, x, near, sign, warmth):  # type: ignore[no-untyped-def]
    """Temperature: a warm core, and cold air polewards and west of warm air."""
    middle, upper, contrast, tilt, _ = warmth
    front = sign * contrast * np.cos(angle + tilt) * x * np.exp(0.5 - x * x / 2)
    cell[T500] += sign * middle * near + 0.8 * front
    cell[T200] += sign * upper * near - 0.3 * front
    cell[TREFHT] += front
    cell[TS] += 0.4 * front
    cell[ZBOT] += 0.22 * front


@compiled
def _spiral(angle, x, arms, outside):  # type: ignore[no-untyped-def]
    """Relative moisture at a distance, 0 to 1: trailing spiral arms; one arm makes a comma."""
    if arms == 0:
        return 1.0
    ridge = 0.5 + 0.5 * np.cos(arms * (angle + 2.2 / arms * np.log(x)))
    return outside + (1 - outside) * ridge ** (3 - arms)


@compiled
def _wet(cell, water, arm):  # type: ignore[no-untyped-def]
    cell[TMQ] = max(cell[TMQ] + water * arm, 0.5)
    cell[QREFHT] = max(cell[QREFHT] + 1e-4 * water * arm, 1e-4)
    cell[PRECT] = max(cell[PRECT] + 3e-8 * water * arm * arm, 0.0)
