"""How many frames of generated weather one core makes a second, and how long the first one takes.

    python benchmarks/weather.py

Medians of seven blocks. Needed: 4 frames a second of 768 x 1152 points, 150 of 96 x 144.
"""

import os
import statistics
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
for variable in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ[variable] = "1"

import numpy as np  # noqa: E402, its threads are settled above

from hpcai.clock import now  # noqa: E402
from hpcai.data.weather.generated import FIRST_YEAR, GeneratedFrames, formula  # noqa: E402
from hpcai.machine.inventory import processor, versions  # noqa: E402

BLOCKS = 7
# rows, columns, classes, frames in a block, frames a second that are needed
SIZES = ((96, 144, 2, 60, 150), (384, 576, 4, 6, 16), (768, 1152, 4, 2, 4))


def rate(split: GeneratedFrames, block: int, frames: int) -> tuple[float, float]:
    """Frames a second, by the clock and by the processor time of this thread."""
    begin, used = now(), time.thread_time()
    split.frames(np.arange(block * frames, (block + 1) * frames))
    return frames / (now() - begin), frames / (time.thread_time() - used)


def measure(height: int, width: int, classes: int, frames: int, needed: int) -> str:
    """One line of the table."""
    split = GeneratedFrames(formula(classes, height, width, 1), FIRST_YEAR, 1460)
    begin = now()
    split.frames(np.array([1459]))  # compiles, and draws the waves and events of the year
    first = now() - begin
    blocks = [rate(split, block, frames) for block in range(BLOCKS)]
    wall, cpu = (statistics.median(column) for column in zip(*blocks, strict=True))
    met = "reached" if wall >= needed else "reached by processor time" if cpu >= needed else "MISSED"
    return f"{height:>5} x {width:<5} {classes:>7} {wall:>10,.1f} {cpu:>18,.1f} {first:>8.2f} {needed:>8,}  {met}"


def main() -> None:
    """Print the machine, the versions and the table."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    print(f"{processor()}, one core; {', '.join(f'{name} {version}' for name, version in versions().items())}")
    print(f"{'grid':<13} {'classes':>7} {'frames/s':>10} {'per s of processor':>18} {'first, s':>8} {'needed':>8}")
    for size in SIZES:
        print(measure(*size))


if __name__ == "__main__":
    main()
