"""One published file: its boxes, and its fields, read in blocks of HDF5 chunks.

The HDF5 library decompresses under its global lock. Here it only delivers compressed chunks, which several threads
inflate at the same time. Files with other filters than gzip and shuffle are read by the library.
"""

import os
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hpcai.clock import now
from hpcai.data.weather.box_cleaning import cleaned
from hpcai.data.weather.layout import CHANNELS, IMAGES, RECTANGLES
from hpcai.data.weather.read_counters import ReadCounters
from hpcai.data.weather.weather_dataset import Boxes
from hpcai.errors import DataError
from hpcai.machine.affinity import own_cpus

if TYPE_CHECKING:
    import h5py

ALLOWED = f"a file with {IMAGES}, float32 [n, {len(CHANNELS)}, H, W], and {RECTANGLES}, int32 [n, m, 5]"
MOST_THREADS = 16
_SHUFFLE, _DEFLATE = 2, 1  # the library's own numbers of these filters
_KNOWN: tuple[list[int], ...] = ([], [_DEFLATE], [_SHUFFLE, _DEFLATE])

Offset = tuple[int, ...]


def inflating_threads() -> int:
    """Number of threads that decompress at the same time."""
    return min(MOST_THREADS, len(own_cpus()))


@contextmanager
def opened(path: Path) -> Iterator["h5py.File"]:
    """The HDF5 file, open for reading; its errors inside the block become DataError."""
    import h5py

    with readable(path), h5py.File(path, "r", locking=False) as file:  # shared file systems often cannot lock
        yield file


@contextmanager
def readable(path: Path) -> Iterator[None]:
    """Turn errors of reading that file inside the block into DataError."""
    try:
        yield
    except (OSError, KeyError, ValueError, RuntimeError, TypeError, zlib.error) as error:
        raise DataError(f"{path} cannot be read ({error}); allowed: {ALLOWED}") from error


class YearFile:
    """A file of one year: `frames` of `shape` [16, H, W], read in blocks of `block` frames; boxes are cleaned.

    Each process that reads fields opens the file again, lazily. marks: attributes of the file. checked: whether its
    chunks have checksums, which are compared when they are read.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        with opened(path) as file:
            images, rows = file[IMAGES], file[RECTANGLES]
            if problem := _problem(images, rows):
                raise DataError(f"{path}: {problem}; allowed: {ALLOWED}, n > 0")
            self.frames, channels, height, width = map(int, images.shape)
            self.shape = channels, height, width
            self.checked = images.compression == "gzip" or bool(images.fletcher32)
            self.block = min(images.chunks[0], self.frames) if images.chunks else 1
            self.rows: NDArray[np.int32] = rows[:]
            self.marks = {str(name): value for name, value in file.attrs.items()}
        self.boxes, self.faults = cleaned(self.rows, *self.shape[1:])
        self._file: Any = None
        self._process = 0

    def dataset(self) -> "h5py.Dataset":
        """The fields, opened by this process: an inherited handle must not be used."""
        if self._process != os.getpid():
            import h5py

            with readable(self.path):
                self._file = h5py.File(self.path, "r", locking=False)
            self._process = os.getpid()
        return self._file[IMAGES]

    def read(self, begin: int, stop: int, out: NDArray[np.float32], meter: ReadCounters, threads: int = 1) -> None:
        """Fill out float32[stop - begin, 16, H, W] with the frames begin … stop - 1; DataError if that fails."""
        with readable(self.path):
            dataset = self.dataset()
            inflate = _inflater(dataset)
            if inflate is None:
                started = now()
                dataset.read_direct(out, np.s_[begin:stop])
                meter.add(out.nbytes, now() - started)
                return
            offsets = _offsets(begin, stop, dataset.shape, dataset.chunks)
            _ChunkReader(dataset, inflate, begin, stop, out, meter).fill(offsets, threads)


@dataclass(frozen=True, eq=False)
class Part:
    """The frames begin … stop - 1 of a file."""

    year: YearFile
    begin: int
    stop: int

    def __len__(self) -> int:
        return self.stop - self.begin

    @property
    def boxes(self) -> Boxes:
        """Boxes of these frames."""
        return self.year.boxes[self.begin : self.stop]

    def blocks(self) -> list[tuple[int, int]]:
        """First frame and the one after the last of each block of the file within this part."""
        step = self.year.block
        begins = [self.begin, *range(self.begin - self.begin % step + step, self.stop, step)]
        return [*zip(begins, [*begins[1:], self.stop], strict=True)]


class _ChunkReader:
    """Reads chunks of a file into one array."""

    def __init__(
        self,
        dataset: "h5py.Dataset",
        inflate: Callable[[bytes], bytes | NDArray[np.uint8]],
        begin: int,
        stop: int,
        out: NDArray[np.float32],
        meter: ReadCounters,
    ) -> None:
        self.dataset, self.inflate, self.out, self.meter = dataset, inflate, out, meter
        self.begin, self.stop = begin, stop
        self.kind, self.chunks = dataset.dtype, dataset.chunks

    def fill(self, offsets: Iterator[Offset], threads: int) -> None:
        """Read the chunks at these offsets."""
        if threads == 1:
            for offset in offsets:
                self.place(offset)
            return
        with ThreadPoolExecutor(threads, "hpcai-inflate") as pool:
            for _ in pool.map(self.place, offsets):
                pass

    def place(self, offset: Offset) -> None:
        """Read, inflate and copy one chunk; chunks at the far edges extend beyond the fields."""
        started = now()
        skipped, stored = self.dataset.id.read_direct_chunk(offset)
        read = now()
        first, last = max(self.begin, offset[0]), min(self.stop, offset[0] + self.chunks[0])
        reach = [slice(start, start + size) for start, size in zip(offset[1:], self.chunks[1:], strict=True)]
        place = self.out[first - self.begin : last - self.begin, *reach]
        if skipped:  # stored without compression
            place[:] = self.dataset[first:last, *reach]
        else:
            chunk = np.frombuffer(self.inflate(stored), self.kind).reshape(self.chunks)
            inflated = now()
            place[:] = chunk[first - offset[0] : last - offset[0], *(slice(size) for size in place.shape[1:])]
        self.meter.add(len(stored), read - started, 0.0 if skipped else inflated - read)


def _offsets(begin: int, stop: int, shape: Offset, chunks: Offset) -> Iterator[Offset]:
    """Offsets of the chunks that contain these frames."""
    frames = range(begin - begin % chunks[0], stop, chunks[0])
    return product(frames, *(range(0, size, step) for size, step in zip(shape[1:], chunks[1:], strict=True)))


def _inflater(dataset: "h5py.Dataset") -> Callable[[bytes], bytes | NDArray[np.uint8]] | None:
    """Function that undoes the filters of every chunk; None if the library has to read the file."""
    if not dataset.chunks:
        return None
    properties = dataset.id.get_create_plist()
    filters = [properties.get_filter(place)[0] for place in range(properties.get_nfilters())]
    sizes = zip(dataset.shape, dataset.chunks, strict=True)
    every = int(np.prod([-(-size // step) for size, step in sizes]))
    if filters not in _KNOWN or dataset.id.get_num_chunks() != every:
        return None
    if not filters:
        return bytes
    width = dataset.dtype.itemsize
    inflate = partial(zlib.decompress, bufsize=width * int(np.prod(dataset.chunks)))
    return inflate if filters == [_DEFLATE] else lambda stored: _unshuffled(inflate(stored), width)


def _unshuffled(shuffled: bytes, width: int) -> NDArray[np.uint8]:
    """Inverse of the shuffle filter, which stores the first bytes of all numbers, then the second ones, and so on."""
    return np.ascontiguousarray(np.frombuffer(shuffled, np.uint8).reshape(width, -1).T)


def _problem(images: "h5py.Dataset", rows: "h5py.Dataset") -> str:
    """What is wrong with the layout; empty if nothing is."""
    if images.ndim != 4 or images.shape[1] != len(CHANNELS) or 0 in images.shape:
        return f"{IMAGES} has shape {images.shape}"
    if images.dtype.kind != "f" or images.dtype.itemsize != 4:
        return f"{IMAGES} is of type {images.dtype}"
    if rows.ndim != 3 or rows.shape[2] != 5 or rows.dtype.kind not in "iu":
        return f"{RECTANGLES} has shape {rows.shape}, type {rows.dtype}"
    if len(images) != len(rows):
        return f"{len(images)} frames, boxes of {len(rows)}"
    return ""
