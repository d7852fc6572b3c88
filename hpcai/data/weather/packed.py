"""Packed climate fields as a dataset: random access to frames, one read each, verified by checksum."""

import hashlib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hpcai.clock import now
from hpcai.data.bootstrap import Mask
from hpcai.data.checksummed_records import ChecksummedRecords
from hpcai.data.dataset_paths import WEATHER_INDEX
from hpcai.data.image_shards import check_frame, opened
from hpcai.data.philox import Integers
from hpcai.data.weather.layout import BOXES, CLASSES, TARGET
from hpcai.data.weather.published import spread
from hpcai.data.weather.read_counters import ReadCounters
from hpcai.data.weather.weather_dataset import Boxes, Weather
from hpcai.data.weather.weather_shards import FORMAT, Entry, Halves, Shape, read_index
from hpcai.errors import DataError
from hpcai.machine.affinity import own_cpus

MOST_THREADS = 4  # reading at the same time


def open_packed(folder: Path, samples: int = 0) -> Weather:
    """The dataset in a folder of shards, without reading fields; samples as in `published.open_published`.

    Raises DataError if a shard is missing, truncated or another than the index has. The same on every rank.
    """
    index = read_index(folder)
    n, channels = sum(entry.samples for entry in index.train), index.shape[0]
    whole = index.fingerprint
    return Weather(
        name=index.name,
        source=f"{folder}: {index.faults}",
        shape=index.shape,
        classes=tuple(range(len(CLASSES))),
        mean=np.zeros(channels, np.float32),
        std=np.ones(channels, np.float32),
        target=TARGET,
        fingerprint=hashlib.sha256(f"{whole} {samples}".encode()).hexdigest() if samples else whole,
        train=PackedFrames(folder, index.train, index.shape, spread(n, samples, folder)),
        validation=PackedFrames(folder, index.validation, index.shape),
    )


def files(folder: Path, samples: int = 0, needed: Mask | None = None) -> list[Path]:
    """The files of the index, of validation and of the training frames `needed` (None: all of these `samples`)."""
    index = read_index(folder)
    ends = np.cumsum([entry.samples for entry in index.train])
    chosen = spread(int(ends[-1]), samples, folder)
    indices = np.arange(ends[-1]) if chosen is None else chosen
    numbers = np.unique(np.searchsorted(ends, indices if needed is None else indices[needed], side="right"))
    shards = [index.train[number].file for number in numbers.tolist()]
    return [folder / name for name in (WEATHER_INDEX, *shards, *(entry.file for entry in index.validation))]


class PackedFrames:
    """Frames of shards, float16 and normalised, read by offset, so that any number of threads may read.

    chosen: indices (int64) of the frames in use, None for all.
    """

    def __init__(self, folder: Path, entries: Sequence[Entry], shape: Shape, chosen: Integers | None = None) -> None:
        self._shards = [_Shard(folder, entry, shape) for entry in entries]
        self._ends = np.cumsum([entry.samples for entry in entries])
        self._boxes = np.concatenate([shard.boxes for shard in self._shards])
        self._chosen, self._shape, self._threads = chosen, shape, min(MOST_THREADS, len(own_cpus()))
        self.meter = ReadCounters()

    def __len__(self) -> int:
        return len(self._boxes) if self._chosen is None else len(self._chosen)

    def frames(self, indices: Integers) -> Halves:
        """Fields at the indices, float16[n, 16, H, W] with the channels last in memory."""
        channels, height, width = self._shape
        fields = np.empty((len(indices), height, width, channels), np.float16)
        places = self._indices(indices).tolist()
        if self._threads == 1 or len(places) < 2:
            for place, field in zip(places, fields, strict=True):
                self._read(place, field)
        else:
            with ThreadPoolExecutor(self._threads, "hpcai-reader") as pool:
                list(pool.map(self._read, places, fields))
        return fields.transpose(0, 3, 1, 2)

    def boxes(self, indices: Integers) -> Boxes:
        """Boxes of the frames, int32[n, 15, 5]."""
        return self._boxes[self._indices(indices)]

    def checksums(self) -> NDArray[np.uint32]:
        """CRC-32 of each frame in use, uint32[n]."""
        sums = np.concatenate([shard.records.checksums for shard in self._shards])
        return sums if self._chosen is None else sums[self._chosen]

    @property
    def nbytes(self) -> int:
        """Bytes of the boxes, of all and by shard, and of the checksums; the fields stay in the files."""
        return self._boxes.nbytes + sum(shard.nbytes for shard in self._shards)

    @property
    def itemsize(self) -> int:
        """Bytes of a stored number."""
        return 2

    def _indices(self, indices: Integers) -> Integers:
        return indices if self._chosen is None else self._chosen[indices]

    def _read(self, place: int, field: Halves) -> None:
        number = int(np.searchsorted(self._ends, place, side="right"))
        shard, started = self._shards[number], now()
        shard.records.read(place - int(self._ends[number]) + len(shard.boxes), field.data.cast("B"))
        self.meter.add(field.nbytes, now() - started)


class _Shard:
    """One shard: boxes, checksums and offsets of its frames."""

    def __init__(self, folder: Path, entry: Entry, shape: Shape) -> None:
        path = folder / entry.file
        check_frame(path, entry)
        with opened(path) as file:
            images = file["images"]
            stored = (file.attrs["format"], file.attrs["sha256"], images.shape, images.dtype)
            self.boxes: Boxes = file["boxes"][:]
            self._sums: NDArray[np.uint32] = file["crc32"][:]
            source = str(file.attrs["made_from"])
        sizes = (entry.samples, *shape[1:], shape[0])
        if stored != (FORMAT, entry.sha256, sizes, np.float16) or entry.length != 2 * int(np.prod(sizes)):
            raise DataError(f"{path} is another shard than the index has; allowed: that of SHA-256 {entry.sha256}")
        if self.boxes.shape != (entry.samples, BOXES, 5) or len(self._sums) != entry.samples:
            raise DataError(f"{path} has boxes that do not fit its frames; allowed: a shard as it was packed")
        check = "python -P -m hpcai.data.pack_weather --check"
        self.records = ChecksummedRecords(path, entry.begin, self._sums, lambda number: f"{source} + {number}", check)

    @property
    def nbytes(self) -> int:
        """Bytes kept in memory."""
        return self.boxes.nbytes + self._sums.nbytes
