"""Small files in the published layout, sound or with chosen defects."""

from pathlib import Path
from typing import Any

import h5py
import numpy as np

from hpcai.data.weather.layout import BOXES, CHANNELS, file_name

HEIGHT, WIDTH = 40, 60
CHUNKS = (4, 1, 12, 16)  # like those of the published files: some frames of one channel, a part of the map
MEANS = np.array([1e-8, 98000, 101000, 0.01, 218, 259, 19, 280, 281, 1, -1, 0.2, 0.1, 110, 11900, 62])
FRAMES = {1980: 10, 1981: 7, 1979: 9}  # of the years of a small set
SPREADS = np.array([1e-7, 9000, 1461, 0.006, 6, 12, 15, 20, 22, 8.3, 7, 6.2, 5, 90, 500, 3])

Array = np.ndarray[Any, Any]


def fields_of(seed: int, frames: int, height: int = HEIGHT, width: int = WIDTH) -> Array:
    """Noise with the means and spreads of the real channels, float32[frames, 16, H, W]."""
    noise = np.random.default_rng(seed).standard_normal((frames, len(CHANNELS), height, width))
    return (noise * SPREADS[:, None, None] + MEANS[:, None, None]).astype(np.float32)


def rows_of(seed: int, frames: int, height: int = HEIGHT, width: int = WIDTH, used: int = 4) -> Array:
    """Sound boxes of random classes in the first rows, int32[frames, 15, 5]; half of them are tropical cyclones."""
    random = np.random.default_rng(seed + 1000)
    rows = np.full((frames, BOXES, 5), -1, np.int32)
    tops, lefts = random.integers(0, height - 12, (frames, used)), random.integers(0, width - 12, (frames, used))
    sides = random.integers(6, 12, (2, frames, used))
    classes = np.where(random.random((frames, used)) < 0.5, 1, random.integers(0, 4, (frames, used)))
    rows[:, :used] = np.stack([tops, lefts, tops + sides[0], lefts + sides[1], classes], 2)
    return rows


def with_vortices(fields: Array, rows: Array) -> Array:
    """The fields with a strong vortex in the middle of each tropical cyclone's box."""
    for frame, boxes in zip(fields, rows, strict=True):
        for top, left, bottom, right, _ in boxes[boxes[:, 4] == 1]:
            y, x = np.mgrid[: frame.shape[1], : frame.shape[2]]
            y, x = y - (top + bottom - 1) / 2, x - (left + right - 1) / 2
            wind = 60 * np.exp(-(y**2 + x**2) / 6)
            frame[CHANNELS.index("U850")] += -y * wind
            frame[CHANNELS.index("V850")] += x * wind
    return fields


def write_file(path: Path, fields: Array, rows: Array, **storage: Any) -> Path:
    """A file of these fields and boxes; storage: arguments of h5py, by default chunks as published, and gzip."""
    options = {"chunks": tuple(map(min, CHUNKS, fields.shape)), "compression": "gzip", "compression_opts": 1}
    path.parent.mkdir(parents=True, exist_ok=True)
    with h5py.File(path, "w") as file:
        file.create_dataset("images", data=fields, **(storage or options))
        file["boxes"] = rows
    return path


def write_year(folder: Path, year: int = 1980, frames: int = 10, **storage: Any) -> Path:
    """A sound file of a year; the year is its seed."""
    rows = rows_of(year, frames)
    return write_file(folder / file_name(year), with_vortices(fields_of(year, frames), rows), rows, **storage)


def contents(path: Path) -> tuple[Array, Array]:
    """Fields and boxes of a file, read by h5py."""
    with h5py.File(path, locking=False) as file:  # as any other code that has it open in this process
        return file["images"][:], file["boxes"][:]


def write_years(folder: Path) -> Path:
    """A folder of sound files, two training years and one validation year."""
    for year, frames in FRAMES.items():
        write_year(folder, year, frames)
    return folder
