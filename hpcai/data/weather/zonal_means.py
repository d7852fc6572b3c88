"""Zonal means of the generated climate. Latitudes in degrees, float64[height], south first."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hpcai.data.weather.random_waves import RADIUS

Profile = NDArray[np.float64]

DENSITY = 1.2  # of air near the ground, kg/m3
GRAVITY = 9.81  # m/s2
SPIN = 2 * 7.292e-5  # twice the Earth's rate of rotation, 1/s
PRESSURE = 100_828.0  # Pa, mean over the grid without storms
METRES = 0.0834  # m of height at 1000 hPa for one pascal: R T / (g p)


def latitudes(height: int) -> Profile:
    """Latitudes of the rows of a grid."""
    return (np.arange(height) + 0.5) * 180 / height - 90


def _bump(latitude: Profile, centre: float, width: float) -> Profile:
    return np.exp(-(((latitude - centre) / width) ** 2))


@dataclass(frozen=True, eq=False)
class Climate:
    """Zonal means on the rows of a grid."""

    latitude: Profile

    @property
    def coriolis(self) -> Profile:
        """Coriolis parameter, 1/s."""
        return SPIN * self.sine

    @property
    def sine(self) -> Profile:
        """Sine of the latitude."""
        return np.sin(np.radians(self.latitude))

    @property
    def narrowing(self) -> Profile:
        """Length of a parallel over that of the equator."""
        return np.cos(np.radians(self.latitude))

    @property
    def wind(self) -> Profile:
        """Zonal wind near the ground, m/s: trade winds, westerlies, polar easterlies."""
        north, away = self.latitude, abs(self.latitude)
        westerlies = 8 * _bump(north, 46, 13) + 11 * _bump(north, -49, 13)
        return westerlies - 6 * _bump(away, 14, 9) - 2 * _bump(away, 76, 8)

    @property
    def pressure(self) -> Profile:
        """Sea level pressure in balance with the wind, Pa."""
        step = np.radians(self.latitude[1] - self.latitude[0]) * RADIUS
        falling = -np.cumsum(DENSITY * self.coriolis * self.wind) * step
        return PRESSURE + falling - falling.mean()

    @property
    def water(self) -> Profile:
        """Vertically integrated water, kg/m2."""
        return 5.4 + 41 * _bump(self.latitude, 3, 31.5)

    @property
    def humidity(self) -> Profile:
        """Specific humidity near the ground, kg/kg."""
        return 0.001 + 0.016 * _bump(self.latitude, 2, 34)

    @property
    def rain(self) -> Profile:
        """Precipitation rate, m/s."""
        away = abs(self.latitude)
        return 1e-8 + 5e-8 * _bump(self.latitude, 6, 8) + 3e-8 * _bump(away, 48, 14)

    @property
    def surface(self) -> Profile:
        """Surface temperature, K."""
        return 301 - 48 * self.sine**2 - 14 * _bump(self.latitude, -90, 18)

    @property
    def middle(self) -> Profile:
        """Temperature at 500 hPa, K."""
        return 268 - 33 * self.sine**2

    @property
    def upper(self) -> Profile:
        """Temperature at 200 hPa, K: the tropopause is lower towards the poles."""
        return 219 + 4 * _bump(abs(self.latitude), 52, 16)

    @property
    def height(self) -> Profile:
        """Height of 200 hPa, m."""
        return 12_420 - 1_350 * self.sine**2
