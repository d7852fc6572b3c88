"""How many generated pictures one core makes a second, and how many times the NumPy reference that is.

    python benchmarks/generation.py

Both are asked in turn, block by block, in one process; medians of seven blocks. Needed: 100,000 pictures a second of
32 x 32 pixels, 3,000 of 224 x 224.
"""

import os
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
for variable in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ[variable] = "1"

import numpy as np  # noqa: E402, its threads are settled above

from hpcai.clock import now  # noqa: E402
from hpcai.data.generated_images import open_generated  # noqa: E402
from hpcai.kernels.images import TRAINING, reference  # noqa: E402
from hpcai.machine.inventory import processor, versions  # noqa: E402

BLOCKS = 7
# classes, pixels a side, pictures in a block of one core, of the reference, pictures a second that are needed
SIZES = ((10, 32, 20_000, 100, 100_000), (1000, 224, 1000, 8, 3_000))


def rates(make: Callable[[], object], pictures: int) -> tuple[float, float]:
    """Pictures a second, by the clock and by the processor time of this thread."""
    begin, used = now(), time.thread_time()
    make()
    return pictures / (now() - begin), pictures / (time.thread_time() - used)


def measure(classes: int, side: int, many: int, few: int, needed: int) -> str:
    """One line of the table."""
    split = open_generated(classes=classes, resolution=side, seed=1).train
    table = reference.textures(split.formula)

    def plain() -> None:
        for index in range(few):
            reference.image(split.formula, TRAINING, index, table)

    split.images(np.arange(2))  # compiles
    blocks = [(rates(lambda: split.images(np.arange(many)), many), rates(plain, few)) for _ in range(BLOCKS)]
    wall, cpu = (statistics.median(core[column] for core, _ in blocks) for column in (0, 1))
    ratio = statistics.median(core[1] / other[1] for core, other in blocks)
    met = "reached" if wall >= needed else "reached by processor time" if cpu >= needed else "MISSED"
    return f"{side:>5} {classes:>8} {wall:>14,.0f} {cpu:>18,.0f} {ratio:>12.1f} {needed:>10,}  {met}"


def main() -> None:
    """Print the machine, the versions and the table."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    print(f"{processor()}, one core; {', '.join(f'{name} {version}' for name, version in versions().items())}")
    print(f"{'side':>5} {'classes':>8} {'images/s':>14} {'per s of processor':>18} {'x reference':>12} {'needed':>10}")
    for size in SIZES:
        print(measure(*size))


if __name__ == "__main__":
    main()
