"""Published files as a dataset, read in blocks of their HDF5 chunks.

Reading a random frame costs as much as reading its whole compressed block, 46 frames in the published files. Training
therefore takes the frames of a block one after the other (`BlockOrder`); for training in any order, pack the files
once (`python -P -m hpcai.data.pack_weather`).
"""

import hashlib
import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from hpcai.data.bootstrap import Mask
from hpcai.data.dataset_paths import YEARS
from hpcai.data.philox import Integers
from hpcai.data.weather import statistics
from hpcai.data.weather.box_cleaning import Faults
from hpcai.data.weather.layout import CLASSES, HEIGHT, TARGET, WIDTH
from hpcai.data.weather.moments import normalisation
from hpcai.data.weather.read_counters import ReadCounters
from hpcai.data.weather.survey import crc
from hpcai.data.weather.weather_dataset import Boxes, Weather
from hpcai.data.weather.year_file import Part, YearFile, inflating_threads
from hpcai.errors import DataError

if TYPE_CHECKING:
    from mpi4py import MPI

FORMULA = "formula"  # attribute of the files of `python -P -m hpcai.data.generate`
VALIDATION = 10  # of a single file, the last tenth validates
_NAME = re.compile(r"climo_\d{4}\.h5")


def open_published(path: Path, comm: "MPI.Comm | None" = None, samples: int = 0, *, surveyed: bool = True) -> Weather:
    """The dataset in a folder with files climo_YYYY.h5, or in one file of that layout.

    The last year of a folder validates, the others train; of a single file the last tenth of its frames validates.
    samples: 0 for all, else that many of the training frames, evenly spread. If the statistics of the training
    frames are not yet stored beside the files, the ranks of `comm` read all fields once: then the call is collective.
    If not `surveyed`, mean and std are 0 and 1, and the fingerprint is empty. Raises DataError for files that are
    damaged or of another layout. The same on every rank.
    """
    train, validation = parts(path)
    of = statistics.known([*train, *validation], comm) if surveyed else []
    mean, std = normalisation(statistics.total(of[: len(train)])) if of else _plain(train[0].year.shape[0])
    whole = hashlib.sha256("".join(each.sha256 for each in of).encode()).hexdigest() if of else ""
    frames = PublishedFrames(train, spread(sum(map(len, train)), samples, path), of[: len(train)])
    return Weather(
        name=name([part.year for part in (*train, *validation)]),
        source=f"{path}: {faults([*train, *validation])}",
        shape=train[0].year.shape,
        classes=tuple(range(len(CLASSES))),
        mean=mean,
        std=std,
        target=TARGET,
        fingerprint=hashlib.sha256(f"{whole} {samples}".encode()).hexdigest() if samples else whole,
        train=frames,
        validation=PublishedFrames(validation, of=of[len(train) :]),
    )


def _plain(channels: int) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    return np.zeros(channels, np.float32), np.ones(channels, np.float32)


def files(path: Path) -> list[Path]:
    """The published files of a folder, by year, or the one that is named; DataError if there are none."""
    if path.is_file():
        return [path]
    found = sorted(each for each in path.glob(YEARS) if _NAME.fullmatch(each.name))
    if not found:
        raise DataError(f"{path} has no files climo_YYYY.h5; allowed: a folder with them, or one such file")
    return found


def needed_files(path: Path, samples: int = 0, needed: Mask | None = None) -> list[Path]:
    """The files of validation and of the training frames `needed` (None: all of these `samples`), with statistics."""
    train, validation = parts(path)
    ends = np.cumsum([len(part) for part in train])
    chosen = spread(int(ends[-1]), samples, path)
    indices = np.arange(ends[-1]) if chosen is None else chosen
    numbers = np.unique(np.searchsorted(ends, indices if needed is None else indices[needed], side="right"))
    found = {train[number].year.path for number in numbers.tolist()} | {part.year.path for part in validation}
    stored = files(path)[0].parent / statistics.FILE
    return [*sorted(found), *([stored] if stored.is_file() else [])]


def parts(path: Path) -> tuple[list[Part], list[Part]]:
    """Training and validation parts, see `open_published`; fields are not read."""
    years = [YearFile(file) for file in files(path)]
    for first, second in pairwise(years):
        if first.shape != second.shape:
            raise DataError(f"{second.path} has fields {second.shape}; allowed: {first.shape}, as {first.path}")
    if len(years) > 1:
        whole = [Part(year, 0, year.frames) for year in years]
        return whole[:-1], whole[-1:]
    end = years[0].frames - max(1, years[0].frames // VALIDATION)
    if end == 0:
        raise DataError(f"{path} has one frame; allowed: at least 2, for training and for validation")
    return [Part(years[0], 0, end)], [Part(years[0], end, years[0].frames)]


def faults(of: Sequence[Part]) -> Faults:
    """Faults of the boxes of all their files."""
    return sum((year.faults for year in {part.year.path: part.year for part in of}.values()), Faults())


def name(years: Sequence[YearFile]) -> str:
    """Name of a dataset of these files; only files of the published size that are not generated have the bare name."""
    height, width = years[0].shape[1:]
    if any(FORMULA in year.marks for year in years):
        return f"generated-weather-{height}x{width}"
    return "extremeweather" if (height, width) == (HEIGHT, WIDTH) else f"extremeweather-{height}x{width}"


def spread(n: int, samples: int, path: Path) -> Integers | None:
    """Indices of so many of n training frames, evenly spread; None for all, if samples is 0. DataError if too many."""
    if samples == 0:
        return None
    if not 2 <= samples <= n:
        raise DataError(f"{samples} training frames of {path}; allowed: 0 (all) or 2 to {n}")
    return np.arange(samples) * n // samples


class PublishedFrames:
    """Frames of published files, float32 and raw; the block read last stays in memory.

    Any number of threads may read, one at a time. chosen: indices (int64) of the frames in use, None for all.
    of: statistics of the parts, with whose CRC-32 frames without checksums of their own are compared; empty: none are.
    """

    def __init__(
        self, parts: Sequence[Part], chosen: Integers | None = None, of: Sequence[statistics.PartStatistics] = ()
    ) -> None:
        self._parts, self._chosen = parts, chosen
        self._sums = [each for part in of for each in part.sums]
        self._ends = np.cumsum([len(part) for part in parts])
        self._boxes = np.concatenate([part.boxes for part in parts])
        blocks = [(number, *block) for number, part in enumerate(parts) for block in part.blocks()]
        self._blocks = blocks
        self._begins = np.cumsum([0, *(stop - begin for _, begin, stop in blocks)])
        self._kept, self._memory = -1, np.empty((0, *parts[0].year.shape), np.float32)
        self._reading = Lock()
        self.meter = ReadCounters()

    def __len__(self) -> int:
        return len(self._boxes) if self._chosen is None else len(self._chosen)

    def frames(self, indices: Integers) -> NDArray[np.float32]:
        """Fields at the indices, float32[n, 16, H, W], read block by block in the order of first use.

        The last block, with which the next indices may continue, stays in memory.
        """
        places = self._indices(indices)
        fields = np.empty((len(places), *self._parts[0].year.shape), np.float32)
        numbers = np.searchsorted(self._begins, places, side="right") - 1
        with self._reading:
            for number in dict.fromkeys(numbers.tolist()):
                block = self._block(number)
                for place in np.flatnonzero(numbers == number).tolist():
                    fields[place] = block[places[place] - self._begins[number]]
        return fields

    def boxes(self, indices: Integers) -> Boxes:
        """Boxes of the frames, int32[n, 15, 5]."""
        return self._boxes[self._indices(indices)]

    def places(self) -> Iterator[tuple[Path, int]]:
        """File of each frame in use, and its number there."""
        every = [(part.year.path, frame) for part in self._parts for frame in range(part.begin, part.stop)]
        return (every[place] for place in self._indices(np.arange(len(self))).tolist())

    @property
    def nbytes(self) -> int:
        """Bytes of the boxes and of one block, which stays in memory; the other fields stay in the files."""
        frame = 4 * int(np.prod(self._parts[0].year.shape))
        return self._boxes.nbytes + frame * max(stop - begin for _, begin, stop in self._blocks)

    @property
    def itemsize(self) -> int:
        """Bytes of a stored number."""
        return 4

    @property
    def begins(self) -> Integers:
        """The first index of each block, and the number of frames at the end, for `BlockOrder`."""
        return self._begins if self._chosen is None else np.searchsorted(self._chosen, self._begins)

    def _indices(self, indices: Integers) -> Integers:
        return indices if self._chosen is None else self._chosen[indices]

    def _block(self, number: int) -> NDArray[np.float32]:
        part, begin, stop = self._blocks[number]
        if self._kept != number:
            self._kept = -1
            if len(self._memory) < stop - begin:
                self._memory = np.empty((stop - begin, *self._parts[0].year.shape), np.float32)
            year = self._parts[part].year
            year.read(begin, stop, self._memory[: stop - begin], self.meter, inflating_threads())
            self._check(number, year)
            self._kept = number
        return self._memory[: stop - begin]

    def _check(self, number: int, year: YearFile) -> None:
        """Raise DataError if a frame of the block in memory is not the one whose statistics are known."""
        first = int(self._begins[number])
        expected = [] if year.checked else self._sums[first : int(self._begins[number + 1])]
        for place, known in enumerate(expected):
            if crc(self._memory[place]) != known:
                raise DataError(
                    f"{year.path}: frame {self._blocks[number][1] + place} has changed since its statistics were "
                    f"stored; allowed: the same file, or no {statistics.FILE} beside it"
                )
