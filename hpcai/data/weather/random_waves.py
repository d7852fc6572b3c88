"""Moving Gaussian random fields: waves, periodic along the equator, each with its own phase speed.

A wave is drawn by its wave numbers and not by the grid, so that grids of different size have the same weather.
"""

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from hpcai.data.philox import uniform64

RADIUS = 6.371e6  # of the Earth, m
STEP = 21_600.0  # s between two frames
DEFORMATION = 1.0e6  # radius of deformation, m
LARGEST = 42  # largest wave number
_STRIDE = 128  # between the counters of neighbouring zonal wave numbers
_CIRCLE = 2 * np.pi * RADIUS * np.cos(np.pi / 4)  # m, of the representative parallel
_SPAN = 1.25 * np.pi * RADIUS  # m, period from south to north: the poles do not touch
_BETA = 2 * 7.292e-5 / RADIUS * np.cos(np.pi / 4)

Coefficients = NDArray[np.complex128]
Field = NDArray[np.float32]


def uniform(seed: int, stream_number: int, counters: NDArray[np.int64]) -> NDArray[np.float64]:
    """Uniform draws in (0, 1), one for each counter, multiples of 2^-25: the same numbers on every machine."""
    return ((uniform64(seed, stream_number, counters) >> np.uint64(40)).astype(np.float64) + 0.5) * 2.0**-24


class Waves:
    """Fields of mean 0 and variance 1 on a grid of `height` x `width` points, south first.

    Variance falls with the wave number k as (1 + (k / peak)^2)^-3: as k^-5, counted over all directions, well above
    `peak` (a wave number round the Earth). `flow` carries the waves eastwards, m/s; Rossby waves move against it by
    beta / (k^2 + 1 / L^2), L the radius of deformation (Vallis, Atmospheric and Oceanic Fluid Dynamics, section 6.4).
    """

    def __init__(self, height: int, width: int, peak: float, flow: float, rossby: bool) -> None:
        self.height, self.width = height, width
        self.zonal = np.arange(1, min(LARGEST, width // 2 - 1) + 1)
        most = min(LARGEST, height // 2 - 1)
        self.meridional = np.arange(-most, most + 1)
        k = 2 * np.pi / _CIRCLE * self.zonal[None, :]
        square = k**2 + (2 * np.pi / _SPAN * self.meridional[:, None]) ** 2
        self.frequency = flow * k - (_BETA * k / (square + DEFORMATION**-2) if rossby else 0.0)
        power = (1 + square * (RADIUS / peak) ** 2) ** -3.0
        self.amplitude = np.sqrt(power / (2 * power.sum()))

    def draw(self, seed: int, stream_number: int) -> Coefficients:
        """Coefficients of the waves, complex128[meridional, zonal]."""
        counters = 2 * (self.zonal[None, :] * _STRIDE + self.meridional[:, None] + LARGEST)
        radius = np.sqrt(-2 * np.log(uniform(seed, stream_number, counters)))
        angle = 2 * np.pi * uniform(seed, stream_number, counters + 1)
        return self.amplitude / np.sqrt(2) * radius * np.exp(1j * angle)

    def field(self, coefficients: Coefficients, t: float) -> Field:
        """The field at step t after the coefficients were drawn, float32[height, width]."""
        moved = coefficients * np.exp(-1j * STEP * t * self.frequency)
        spectrum = np.zeros((self.height, self.width // 2 + 1), np.complex64)
        spectrum[:, 1 : len(self.zonal) + 1] = self._parallels @ moved.astype(np.complex64)
        return np.fft.irfft(spectrum, self.width, norm="forward").astype(np.float32, copy=False)

    @cached_property
    def _parallels(self) -> NDArray[np.complex64]:
        y = (np.arange(self.height) + 0.5) / self.height * np.pi * RADIUS / _SPAN
        return np.exp(2j * np.pi * y[:, None] * self.meridional[None, :]).astype(np.complex64)
