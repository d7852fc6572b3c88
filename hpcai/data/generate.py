"""Command that writes generated weather as files in the published layout.

Usage: `python -P -m hpcai.data.generate FOLDER [--years 2] ...`.

`mpirun -np N` in front of it divides the years. Complete years are kept, so that an interrupted job can be
resumed. Exit codes: 0 done · 2 illegal options, or files of something else · 3 broken off.
"""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from hpcai.data.packing_command import command, count
from hpcai.errors import HpcaiError, InputError

if TYPE_CHECKING:
    from hpcai.comm.world import World
    from hpcai.data.weather.generated import Formula

FORMULA = "formula"  # attribute of a file
LEVEL = 1  # of gzip: more takes longer and saves little
TILES = 16  # chunks along a side of the grid, as in the published files


@dataclass(frozen=True)
class Files:
    """Parameters of the files of a job: folder, formula, frames of a year, frames of a chunk."""

    folder: Path
    formula: "Formula"
    frames: int
    chunk: int

    @property
    def text(self) -> str:
        """Identifies the files of this job."""
        from hpcai.data.weather.generated import VERSION

        return f"generated weather, version {VERSION}, {self.frames} frames, {self.formula}"


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit code; every rank of the job ends with it."""
    return command(lambda: _options(arguments), _run)


def _run(options: argparse.Namespace, world: "World") -> int:
    from hpcai.comm.world import on_all_ranks

    years = range(options.first, options.first + options.years)

    def work() -> None:
        files = _files(options)
        for year in years[world.rank :: world.size]:
            write(files, year)

    on_all_ranks(world.comm, work)
    if world.rank == 0:
        print(f"hpcai: {options.folder}: {options.years} years from {options.first}, {options.frames} frames each")
    return 0


def _files(options: argparse.Namespace) -> Files:
    from hpcai.data.weather.generated import formula

    try:
        options.folder.mkdir(parents=True, exist_ok=True)
        made = formula(options.classes, options.height, options.width, options.seed)
    except OSError as error:
        raise InputError(f"{options.folder} cannot be made: {error.strerror}; allowed: a writable folder") from error
    except HpcaiError as error:
        raise InputError(str(error)) from error
    return Files(options.folder, made, options.frames, options.chunk_frames)


def write(files: Files, year: int) -> Path:
    """The file of a year, written unless it exists; InputError if it has other contents."""
    from hpcai.data.weather.layout import file_name

    path = files.folder / file_name(year)
    part = path.with_name(f"{path.name}.part")
    try:
        if path.exists():
            _compare(path, files)
            return path
        _fill(part, files, year)
        part.replace(path)
    except OSError as error:
        raise HpcaiError(f"{path} cannot be written: {error}") from error
    return path


def _compare(path: Path, files: Files) -> None:
    import h5py

    with h5py.File(path) as file:
        there = file.attrs.get(FORMULA)
    if there != files.text:
        raise InputError(f"{path} holds {there}, not {files.text}; allowed: an empty folder, or files of this job")


def _fill(path: Path, files: Files, year: int) -> None:
    import h5py
    import numpy as np

    from hpcai.data.weather.generated import Maker
    from hpcai.data.weather.layout import BOXES, CHANNELS, IMAGES, RECTANGLES

    height, width = files.formula.height, files.formula.width
    chunk = min(files.chunk, files.frames)
    tile = (chunk, 1, -(-height // TILES), -(-width // TILES))
    packed = {"compression": "gzip", "compression_opts": LEVEL, "shuffle": True}
    maker = Maker(files.formula)
    block = np.empty((chunk, len(CHANNELS), height, width), np.float32)
    with h5py.File(path, "w") as file:
        file.attrs[FORMULA] = files.text
        images = file.create_dataset(IMAGES, (files.frames, *block.shape[1:]), np.float32, chunks=tile, **packed)
        boxes = file.create_dataset(RECTANGLES, (files.frames, BOXES, 5), np.int32)
        for start in range(0, files.frames, chunk):
            stop = min(start + chunk, files.frames)
            boxes[start:stop] = [maker.make(year, t, block[t - start]) for t in range(start, stop)]
            images[start:stop] = block[: stop - start]


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    from hpcai.data.weather.layout import FRAMES, HEIGHT, WIDTH

    parser = argparse.ArgumentParser(
        "python -P -m hpcai.data.generate", description="Write generated weather as files in the published layout."
    )
    parser.add_argument("folder", type=Path, help="folder of the files, one a year; what is complete there is kept")
    numbers = {
        "--years": (1, "files"),
        "--first": (1979, "first year"),
        "--frames": (FRAMES, "frames of a year, one every six hours"),
        "--height": (HEIGHT, "points from south to north"),
        "--width": (WIDTH, "points along a parallel"),
        "--classes": (4, "2 or 4"),
        "--seed": (0, "of all draws"),
        "--chunk-frames": (46, "frames of a chunk, which are in memory at a time"),
    }
    for name, (default, text) in numbers.items():
        parser.add_argument(name, type=count, default=default, metavar="N", help=f"{text} [{default}]")
    options = parser.parse_args(arguments)
    if not 0 < options.frames <= FRAMES or not options.years or not options.chunk_frames:
        parser.error(f"allowed: at least 1 year, 1 to {FRAMES} frames, at least 1 frame in a chunk")
    if options.first + options.years > 10_000 or options.seed >= 1 << 64:
        parser.error("allowed: years up to 9999 and a seed of 64 bits")
    return options


if __name__ == "__main__":
    sys.exit(main())
