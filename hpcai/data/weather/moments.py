"""Means and variances of the channels, which can be merged over any number of frames."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hpcai.data.weather.augmentation import MERIDIONAL

Doubles = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Moments:
    """Count of values in each channel, their mean, and the sum of squared distances from it; float64[16] each."""

    count: int
    mean: Doubles
    squares: Doubles

    def __add__(self, other: "Moments") -> "Moments":
        """Source: Chan, Golub, LeVeque, "Algorithms for computing the sample variance", Am. Stat. 37, 1983, (2.1)."""
        count = self.count + other.count
        apart = other.mean - self.mean
        mean = self.mean + apart * (other.count / count)
        return Moments(count, mean, self.squares + other.squares + apart**2 * (self.count * other.count / count))

    @property
    def std(self) -> Doubles:
        """Standard deviations; 1 for a channel that is constant."""
        std: Doubles = np.sqrt(self.squares / self.count)
        return np.where(std > 0, std, 1.0)

    def as_lists(self) -> tuple[int, list[float], list[float]]:
        """Count, mean and squares without NumPy."""
        return self.count, self.mean.tolist(), self.squares.tolist()


def of_frame(frame: NDArray[np.float32]) -> Moments:
    """The moments of one frame [16, H, W], in float64, channel by channel, so that the data stay in the cache."""
    mean, squares = np.empty(len(frame)), np.empty(len(frame))
    for channel, plane in enumerate(frame):
        values = plane.astype(np.float64).ravel()
        mean[channel] = values.mean()
        with np.errstate(invalid="ignore"):  # the caller reports fields that are not finite
            values -= mean[channel]
        squares[channel] = np.einsum("i,i->", values, values)
    return Moments(frame[0].size, mean, squares)


def normalisation(moments: Moments) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Mean and std, float32[16], for normalisation.

    Meridional winds are not shifted: their mean over fields and mirrored fields is 0, and without a shift the mirrored
    field is the negative, normalised or not.
    """
    mean = moments.mean.astype(np.float32)
    mean[list(MERIDIONAL)] = 0
    return mean, moments.std.astype(np.float32)
