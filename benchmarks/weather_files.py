"""Reading published climate fields in blocks of their chunks, against one random frame at a time; and packed ones.

    python benchmarks/weather_files.py [--height 192] [--width 288] [--blocks 3] [--rounds 5] [--threads 1]

Writes a replica with the chunks that the published files have, (46, 1, 48, 72), and packs it. What counts is the median
over the rounds, in which all take turns; by processor time it holds on a machine with other work too. The random frame
is read as anybody would, by h5py's own indexing.
"""

import argparse
import sys
import tempfile
from collections.abc import Callable
from itertools import product
from pathlib import Path
from time import process_time

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import h5py  # noqa: E402, the checkout comes first
import numpy as np  # noqa: E402

from hpcai import clock  # noqa: E402
from hpcai.data.pack_weather import main as pack  # noqa: E402
from hpcai.data.weather import year_file  # noqa: E402
from hpcai.data.weather.block_order import BlockOrder  # noqa: E402
from hpcai.data.weather.layout import BOXES, CHANNELS, file_name  # noqa: E402
from hpcai.data.weather.packed import open_packed  # noqa: E402
from hpcai.data.weather.published import PublishedFrames, open_published  # noqa: E402
from hpcai.data.weather.read_counters import ReadCounters  # noqa: E402
from hpcai.data.weather.weather_dataset import Frames  # noqa: E402
from hpcai.machine.inventory import processor, versions  # noqa: E402

CHUNKS = (46, 1, 48, 72)
TRAINING = 1980  # the year
RANDOM_FRAMES = 4  # a round
BATCH = 2


def replica(path: Path, frames: int, height: int, width: int) -> None:
    """Smooth fields with some noise, which gzip makes about half as large, as it does the published ones."""
    random = np.random.default_rng(1)
    path.parent.mkdir(exist_ok=True)
    with h5py.File(path, "w") as file:
        file["boxes"] = np.full((frames, BOXES, 5), -1, np.int32)
        shape = (frames, len(CHANNELS), height, width)
        images = file.create_dataset("images", shape, np.float32, chunks=CHUNKS, compression="gzip", compression_opts=1)
        for begin, channel in product(range(0, frames, CHUNKS[0]), range(len(CHANNELS))):
            stop = min(begin + CHUNKS[0], frames)
            field = random.standard_normal((stop - begin, height, width), np.float32).cumsum(2)
            images[begin:stop, channel] = np.round(field * 256) / 256


def rates(read: Callable[[int], object], calls: int, frames: int) -> np.ndarray:
    """Frames a second by the clock, and a second of the processors, of so many calls that each read as many frames."""
    begin = np.array([clock.now(), process_time()])
    for number in range(calls):
        read(number)
    return calls * frames / (np.array([clock.now(), process_time()]) - begin)


class Rounds:
    """The three ways to read, one round each time they are called."""

    def __init__(self, years: Path, packed: Path) -> None:
        self.random = np.random.default_rng(2)
        self.years, self.turn, self.meters = years, 0, list[ReadCounters]()
        self.packed = open_packed(packed).train

    def one_frame(self) -> np.ndarray:
        """Any frame, by h5py."""
        with h5py.File(self.years / file_name(TRAINING), "r", locking=False) as file:
            images = file["images"]
            chosen = self.random.integers(0, len(images), RANDOM_FRAMES).tolist()
            return rates(lambda number: images[chosen[number]], RANDOM_FRAMES, 1)

    def blocks(self) -> np.ndarray:
        """An epoch in the order of blocks, batch by batch."""
        published = open_published(self.years).train  # anew: no block is in memory
        assert isinstance(published, PublishedFrames)
        self.turn += 1
        self.meters.append(published.meter)
        return self._epoch(published, BlockOrder(published.begins, 1, self.turn))

    def pieces(self) -> np.ndarray:
        """Any packed frames, batch by batch."""
        return self._epoch(self.packed, lambda positions: self.random.integers(0, len(self.packed), len(positions)))

    def _epoch(self, split: Frames, order: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
        steps = len(split) // BATCH
        indices = order(np.arange(steps * BATCH)).reshape(steps, BATCH)
        return rates(lambda step: split.frames(indices[step]), steps, BATCH)


def arguments() -> argparse.Namespace:
    """What was asked for."""
    parser = argparse.ArgumentParser(description="Rate of reading in blocks over that of one random frame at a time.")
    for name, default in (("height", 192), ("width", 288), ("blocks", 3), ("rounds", 5), ("threads", 1)):
        parser.add_argument(f"--{name}", type=int, default=default)
    return parser.parse_args()


def main() -> None:
    """Print the machine, the versions, the rates and their ratios."""
    options = arguments()
    year_file.MOST_THREADS = options.threads
    libraries = ", ".join(f"{name} {number}" for name, number in versions().items())
    print(f"{processor()}; {libraries}")
    with tempfile.TemporaryDirectory() as folder:
        years = Path(folder) / "years"
        for number, frames in ((TRAINING, options.blocks * CHUNKS[0]), (TRAINING + 1, CHUNKS[0])):
            replica(years / file_name(number), frames, options.height, options.width)
        pack([str(years), f"{folder}/set"])
        rounds = Rounds(years, Path(folder) / "set")
        ways = {"one random frame": rounds.one_frame, "blocks": rounds.blocks, "packed": rounds.pieces}
        found = [{name: way() for name, way in ways.items()} for _ in range(options.rounds)]
        measured = rounds.meters[-1].measured()
    grid = f"16 x {options.height} x {options.width}"
    print(f"{options.blocks} blocks of {CHUNKS[0]} frames {grid}, {options.threads} threads")
    print(f"{'':<18} {'frames/s':>10} {'ratio':>8} {'by processor time':>18}")
    for name in ways:
        rate, _ = np.median([each[name] for each in found], axis=0)
        ratio, of_processors = np.median([each[name] / each["one random frame"] for each in found], axis=0)
        print(f"{name:<18} {rate:10.2f} {ratio:8.1f} {of_processors:18.1f}")
    share = measured["decompress_seconds"] / (measured["decompress_seconds"] + measured["read_seconds"])
    print(f"blocks: {share:.3f} of the time of reading went into decompressing; needed: 25 x")


if __name__ == "__main__":
    main()
