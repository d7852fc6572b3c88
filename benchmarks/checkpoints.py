"""What a checkpoint costs a training: epochs with one in them and without take turns.

    mpirun -np 2 python benchmarks/checkpoints.py [INPUT] [--rounds 5] [--set KEY=VALUE ...]

Each training of the shipped problem is built and warmed up as in a run, without validations. In every second epoch a
checkpoint is due after the first step, which a thread writes while the training goes on. Of each training it prints, of
the slowest rank, the pause in which the state is copied, the seconds that epoch took longer (medians over the pairs),
the bytes of a rank's file, and both seconds as a share of the time between two checkpoints: CHECKPOINT 600, or 100
times the pause where that is longer. Needed: share at most 1 %, on a machine that does nothing else.
"""

import math
import statistics
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from epoch_turns import options, trainings
from mpi4py import MPI

from hpcai.training.checkpointing import SHARE

BETWEEN = 600.0  # seconds, the default of CHECKPOINT
DAY = 86400  # seconds: none is due but those that are asked for


def switch(every: Any, on: bool) -> None:
    """Let a checkpoint be due in an epoch, or none; earlier ones are written before."""
    if not on:
        every.kept._files.wait()
        every.nbytes = max(path.stat().st_size for path in every.kept._files._folder.iterdir())
    every.kept._last = -math.inf if on else math.inf


def main() -> None:
    chosen = options(__doc__).parse_args()
    chosen.set = [*chosen.set, f"CHECKPOINT={DAY}"]
    for world, case, turns, every in trainings(chosen, switch):
        pauses = [on for on, _ in turns.pairs("checkpoint")]
        longer = [on - off for on, off in turns.pairs("training")]
        epoch = statistics.median(off for _, off in turns.pairs("training"))
        largest = [statistics.median(pauses), statistics.median(longer), max(pauses), epoch, every.nbytes]
        pause, slower, most, epoch, nbytes = (world.comm.allreduce(each, MPI.MAX) for each in largest)
        share = (pause + max(0.0, slower)) / max(BETWEEN, SHARE * most)
        if world.rank == 0:
            print(
                f"{case.workload} {case.network} {case.groups} x {case.degree}: pause {1e3 * pause:.1f} ms, "
                f"epoch {1e3 * slower:+.1f} ms of {epoch:.2f} s, {nbytes / 2**20:.2f} MiB a rank, share {share:.4%}",
                flush=True,
            )


if __name__ == "__main__":
    main()
