"""Check of the box orientation of a file: [ymin, xmin, …], or x and y exchanged, decided by the winds."""

from dataclasses import dataclass
from math import sqrt
from typing import TYPE_CHECKING

import numpy as np

from hpcai.data.philox import Integers
from hpcai.data.weather.layout import TROPICAL_CYCLONE, U850, V850
from hpcai.data.weather.year_file import YearFile, readable
from hpcai.errors import DataError

if TYPE_CHECKING:
    import h5py

MOST = 64  # cyclones of a file that are examined
SURE = 3.3  # standard deviations of a fair coin, for significance


@dataclass(frozen=True)
class Votes:
    """Numbers of cyclones of a file that support the right and the exchanged orientation."""

    right: int
    exchanged: int


def check(year: YearFile) -> Votes:
    """Votes of the cyclones of a file; DataError if x and y of the boxes are exchanged."""
    with readable(year.path):
        votes = count(year)
    if votes.exchanged - votes.right > SURE * sqrt(votes.right + votes.exchanged):
        raise DataError(
            f"{year.path}: {votes.exchanged} of {votes.right + votes.exchanged} tropical cyclones lie in their boxes"
            " only if x and y are exchanged; allowed: rows [ymin, xmin, ymax, xmax, class]"
        )
    return votes


def count(year: YearFile) -> Votes:
    """Votes of the cyclones of a file: the only possible orientation, else the one whose box has the stronger vortex.

    Cyclones whose two boxes overlap do not vote.
    """
    height, width = year.shape[1:]
    frames, places = np.nonzero(year.rows[:, :, 4] == TROPICAL_CYCLONE)
    stored = np.column_stack([frames, year.rows[frames, places, :4].astype(np.int64)])
    other = stored[:, [0, 2, 1, 4, 3]]
    limits = np.array([height, width])
    fits, fits_other = (
        ((rows[:, 1:3] >= 0) & (rows[:, 3:] - rows[:, 1:3] > 0) & (rows[:, 3:] <= limits)).all(1)
        for rows in (stored, other)
    )
    apart = ((stored[:, 3:] <= other[:, 1:3]) | (other[:, 3:] <= stored[:, 1:3])).any(1)
    doubtful = np.flatnonzero(fits & fits_other & apart)
    doubtful = doubtful[np.arange(0, len(doubtful), max(1, -(-len(doubtful) // MOST)))]
    dataset = year.dataset()
    stronger = [_strength(dataset, stored[each]) > _strength(dataset, other[each]) for each in doubtful]
    clear = np.count_nonzero(fits & ~fits_other), np.count_nonzero(fits_other & ~fits)
    return Votes(int(clear[0]) + sum(stronger), int(clear[1]) + len(stronger) - sum(stronger))


def _strength(dataset: "h5py.Dataset", row: Integers) -> float:
    """Largest |dv/dx| + |du/dy| in a box: in a vortex its vorticity, for either order of the rows."""
    frame, top, left, bottom, right = row.tolist()
    reach = slice(max(top - 1, 0), bottom + 1), slice(max(left - 1, 0), right + 1)
    u, v = (dataset[frame, channel, *reach].astype(np.float64) for channel in (U850, V850))
    return float((np.abs(np.gradient(v, axis=1)) + np.abs(np.gradient(u, axis=0))).max())
