"""Reading published climate fields in blocks of their chunks, against one random frame at a time; and packed ones.

    python benchmarks/weather_files.py [--height 192] [--width 288] [--blocks 3] [--rounds 5] [--threads 1]

Writes a replica with the chunks that the published files have, (46, 1, 48, 72), and packs it. What counts is the median
over the rounds, in which all take turns. The random frame is read as anybody would, by h5py's own indexing.
"""

import argparse
import statistics
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import h5py  # noqa: E402, the checkout comes first
import numpy as np  # noqa: E402

from hpcai import clock  # noqa: E402
from hpcai.data.pack_weather import main as pack  # noqa: E402
from hpcai.data.weather import year  # noqa: E402
from hpcai.data.weather.blocks import BlockOrder  # noqa: E402
from hpcai.data.weather.dataset import Frames  # noqa: E402
from hpcai.data.weather.layout import BOXES, CHANNELS  # noqa: E402
from hpcai.data.weather.packed import open_packed  # noqa: E402
from hpcai.data.weather.published import PublishedFrames, open_published  # noqa: E402
from hpcai.machine.inventory import processor, versions  # noqa: E402

CHUNKS = (46, 1, 48, 72)
RANDOM_FRAMES = 4  # a round
BATCH = 2


def replica(path: Path, frames: int, height: int, width: int) -> Path:
    """Smooth fields with some noise, which gzip makes about half as large, as it does the published ones."""
    random = np.random.default_rng(1)
    with h5py.File(path, "w") as file:
        file["boxes"] = np.full((frames, BOXES, 5), -1, np.int32)
        shape = (frames, len(CHANNELS), height, width)
        images = file.create_dataset("images", shape, np.float32, chunks=CHUNKS, compression="gzip", compression_opts=4)
        for begin in range(0, frames, CHUNKS[0]):
            stop = min(begin + CHUNKS[0], frames)
            noise = random.standard_normal((stop - begin, *shape[1:]), np.float32).cumsum(3)
            images[begin:stop] = np.round(noise * 256) / 256
    return path


def rate(read: Callable[[int], object], frames: int) -> float:
    """Frames a second, of so many that are read one call after the other."""
    begin = clock.now()
    for number in range(frames):
        read(number)
    return frames / (clock.now() - begin)


class Rounds:
    """The three ways to read, one round each time they are called."""

    def __init__(self, path: Path, folder: Path) -> None:
        self.random = np.random.default_rng(2)
        self.path, self.turn = path, 0
        self.published, self.packed = open_published(path).train, open_packed(folder).train

    def one_frame(self) -> float:
        """Any frame, by h5py."""
        with h5py.File(self.path, "r", locking=False) as file:
            images = file["images"]
            chosen = self.random.integers(0, len(self.published), RANDOM_FRAMES).tolist()
            return rate(lambda number: images[chosen[number]], RANDOM_FRAMES)

    def blocks(self) -> float:
        """An epoch in the order of blocks, batch by batch."""
        assert isinstance(self.published, PublishedFrames)
        self.turn += 1
        return self._epoch(self.published, BlockOrder(self.published.begins, 1, self.turn))

    def pieces(self) -> float:
        """Any packed frames, batch by batch."""
        return self._epoch(self.packed, lambda positions: self.random.integers(0, len(self.packed), len(positions)))

    def _epoch(self, split: Frames, order: Callable[[np.ndarray], np.ndarray]) -> float:
        steps = len(split) // BATCH
        indices = order(np.arange(steps * BATCH)).reshape(steps, BATCH)
        return BATCH * rate(lambda step: split.frames(indices[step]), steps)


def arguments() -> argparse.Namespace:
    """What was asked for."""
    parser = argparse.ArgumentParser(description="Rate of reading in blocks over that of one random frame at a time.")
    for name, default in (("height", 192), ("width", 288), ("blocks", 3), ("rounds", 5), ("threads", 1)):
        parser.add_argument(f"--{name}", type=int, default=default)
    return parser.parse_args()


def main() -> None:
    """Print the machine, the versions, the rates and their ratios."""
    options = arguments()
    year.MOST_THREADS = options.threads
    libraries = ", ".join(f"{name} {number}" for name, number in versions().items())
    print(f"{processor()}; {libraries}")
    with tempfile.TemporaryDirectory() as folder:
        path = replica(Path(folder) / "climo_1980.h5", options.blocks * CHUNKS[0], options.height, options.width)
        pack([str(path), f"{folder}/set"])
        rounds = Rounds(path, Path(folder) / "set")
        ways = {"one random frame": rounds.one_frame, "blocks": rounds.blocks, "packed": rounds.pieces}
        found = [{name: way() for name, way in ways.items()} for _ in range(options.rounds)]
        measured = rounds.published.meter.measured()
    grid = f"16 x {options.height} x {options.width}"
    print(f"{options.blocks} blocks of {CHUNKS[0]} frames {grid}, {options.threads} threads")
    for name in ways:
        ratio = statistics.median(each[name] / each["one random frame"] for each in found)
        print(f"{name:<18} {statistics.median(each[name] for each in found):10.2f} frames/s {ratio:8.1f} x")
    share = measured["decompress_seconds"] / (measured["decompress_seconds"] + measured["read_seconds"])
    print(f"blocks: {share:.3f} of the time of reading went into decompressing; needed: 25 x")


if __name__ == "__main__":
    main()
