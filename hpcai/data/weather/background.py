"""Background weather without storms: all channels from one streamfunction and one field of warm, moist air.

Computed on a grid of half the size and interpolated bilinearly; a function of (seed, year, t), the same weather on any
grid.
"""

from collections.abc import Callable
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from hpcai.data.philox import Purpose, stream
from hpcai.data.weather import layout as channel
from hpcai.data.weather.random_waves import RADIUS, Coefficients, Field, Waves
from hpcai.data.weather.zonal_means import DENSITY, GRAVITY, METRES, Climate, latitudes
from hpcai.kernels.cpu.compiled import compiled

STREAM_PART, AIR_PART, LAND_PART = 0, 1, 2  # of the draws' streams
SCALE_HEIGHT = 8_400.0  # of the atmosphere, m
ALOFT = 1.8  # wind at 200 hPa over wind at 850 hPa
MOST = np.float32(2.5)  # limit of the anomaly of warm, moist air, standard deviations
YEARS = 4  # number of years whose waves are cached


class Background:
    """Background weather on half the grid of `height` x `width` points."""

    def __init__(self, seed: int, height: int, width: int) -> None:
        self.seed, self.shape = seed, (height // 2, width // 2)
        self.climate = Climate(latitudes(self.shape[0]))
        self._stream = Waves(*self.shape, peak=8.0, flow=10.0, rossby=True)
        self._air = Waves(*self.shape, peak=10.0, flow=7.0, rossby=False)
        away = abs(self.climate.latitude)
        storm_tracks = 5.9e6 + 1.13e7 * np.exp(-(((away - 47) / 19) ** 2))
        self._strength = _column(storm_tracks * self.climate.narrowing**1.3)
        self._means = {name: _column(getattr(self.climate, name)) for name in MEANS}
        self._land, self._ground = self._continents()
        self.waves: Callable[[int], tuple[Coefficients, Coefficients]] = lru_cache(YEARS)(self._waves)

    def _waves(self, year: int) -> tuple[Coefficients, Coefficients]:
        def drawn(waves: Waves, part: int) -> Coefficients:
            return waves.draw(self.seed, stream(Purpose.GENERATED_WEATHER, year, part))

        return drawn(self._stream, STREAM_PART), drawn(self._air, AIR_PART)

    def _continents(self) -> tuple[Field, Field]:
        """Share of land, 0 to 1, and height above sea level, m."""
        coefficients = self._stream.draw(self.seed, stream(Purpose.GENERATED_WEATHER, 0, LAND_PART))
        rough = self._stream.field(coefficients, 0)
        return 1 / (1 + np.exp(-6 * (rough - np.float32(0.5)))), 900 * np.maximum(rough - np.float32(0.6), 0) ** 2

    def at(self, year: int, t: int) -> Field:
        """All channels, float32[16, height / 2, width / 2]."""
        for_stream, for_air = self.waves(year)
        psi = self._strength * self._stream.field(for_stream, t)
        out = np.empty((len(channel.CHANNELS), *self.shape), np.float32)
        self._winds(out, psi)
        self._pressures(out, psi)
        self._warmth(out, psi, self._air.field(for_air, t), t)
        return out

    def _winds(self, out: Field, psi: Field) -> None:
        step = np.float32(np.radians(180 / self.shape[0]) * RADIUS)
        east, north = -np.gradient(psi, step, axis=0), _along(psi) / (step * self._means["narrowing"])
        mean = self._means["wind"]
        out[channel.U850], out[channel.V850] = np.float32(1.25) * mean + east, north
        out[channel.UBOT], out[channel.VBOT] = mean + np.float32(0.75) * east, np.float32(0.75) * north

    def _pressures(self, out: Field, psi: Field) -> None:
        balanced = self._means["coriolis"] * psi
        sea = np.add(self._means["pressure"], np.float32(DENSITY) * balanced, out=out[channel.PSL])
        out[channel.PS] = sea * np.exp(self._ground / np.float32(-SCALE_HEIGHT))
        out[channel.Z1000] = (sea - np.float32(1e5)) * np.float32(METRES)
        out[channel.Z200] = self._means["height"] + balanced * np.float32(ALOFT / GRAVITY)

    def _warmth(self, out: Field, psi: Field, air: Field, t: int) -> None:
        m, balanced = self._means, self._means["coriolis"] * psi
        air = MOST * np.tanh(air / MOST)
        north_winter = np.float32(np.cos(2 * np.pi * t / channel.FRAMES))
        season = -north_winter * m["sine"] * (2 + 12 * self._land)
        out[channel.TS] = m["surface"] + season + self._land * air
        out[channel.TREFHT] = out[channel.TS] - 1 + 2 * air * abs(m["sine"])
        out[channel.T500] = m["middle"] + 0.4 * season + np.float32(2.5e-3) * balanced + air
        out[channel.T200] = m["upper"] - np.float32(2.5e-3) * balanced + air
        out[channel.TMQ] = m["water"] * np.exp(np.float32(0.28) * air)
        out[channel.QREFHT] = m["humidity"] * np.exp(np.float32(0.15) * air) * (1 - np.float32(0.2) * self._land)
        out[channel.PRECT] = m["rain"] * np.exp(np.float32(1.1) * air - np.float32(0.5))
        out[channel.ZBOT] = np.float32(0.22) * out[channel.TREFHT]


MEANS = (
    *("wind", "pressure", "coriolis", "height", "surface", "middle", "upper", "water", "humidity", "rain"),
    *("sine", "narrowing"),
)


def _column(profile: NDArray[np.float64]) -> Field:
    return profile.astype(np.float32)[:, None]


def _along(psi: Field) -> Field:
    """Differences along the parallels, scaled to the distance between rows."""
    height, width = psi.shape
    scale = np.float32(0.5 * width / (2 * height))
    return (np.roll(psi, -1, axis=1) - np.roll(psi, 1, axis=1)) * scale


@compiled
def double(half, out):  # type: ignore[no-untyped-def]
    """Fill out, float32[channels, 2h, 2w], from half, float32[channels, h, w], bilinearly; columns are periodic."""
    channels, height, width = half.shape
    line = np.empty(width + 2, np.float32)
    for c in range(channels):
        for row in range(2 * height):
            near = row // 2
            far = min(max(near + 2 * (row % 2) - 1, 0), height - 1)
            _mix(half[c, near], half[c, far], line[1 : width + 1])
            line[0], line[width + 1] = line[width], line[1]
            _spread(line, out[c, row])


@compiled
def _mix(near, far, line):  # type: ignore[no-untyped-def]
    for j in range(len(line)):
        line[j] = np.float32(0.75) * near[j] + np.float32(0.25) * far[j]


@compiled
def _spread(line, row):  # type: ignore[no-untyped-def]
    for j in range(len(line) - 2):
        middle = np.float32(0.75) * line[j + 1]
        row[2 * j] = middle + np.float32(0.25) * line[j]
        row[2 * j + 1] = middle + np.float32(0.25) * line[j + 2]
