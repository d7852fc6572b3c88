"""What the checks beside a training cost within the training time: epochs with them and without take turns.

    mpirun -np 2 python benchmarks/checks.py [INPUT] [--rounds 5] [--set KEY=VALUE ...]

Each training of the shipped problem is built and warmed up as in a run, without validations. In an epoch without checks
no batch, step or element is noted and no step is copied. Of each training it prints the median of the ratios of
neighbouring epochs, and the copies of audited steps by their own clock, both of the slowest rank. Needed: ratio at most
1.01, on a machine that does nothing else; single ratios vary by several percent.
"""

import statistics
import sys
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from epoch_turns import options, trainings
from mpi4py import MPI


def switch(every: Any, on: bool) -> None:
    """Switch the checks of a training on or off."""
    checks, state = every.trained.checks, every.trained.state
    note, audited = partial(type(checks).note, checks), checks.audited
    genuine = {"note": note, "before": audited.before, "after": audited.after}
    for name, check in genuine.items():
        setattr(checks, name, check if on else nothing)
    state.backward_begins = checks.region.backward if on else nothing
    state.updated = checks._updated if on else nothing
    if not on:
        checks.audited._of = {}


def nothing(*_: object) -> None:
    """A check that is switched off."""


def main() -> None:
    for world, case, turns, every in trainings(options(__doc__).parse_args(), switch):
        ratios = [on / off for on, off in turns.pairs("training")]
        median, low, high = (world.comm.allreduce(each(ratios), MPI.MAX) for each in (statistics.median, min, max))
        inside = world.comm.allreduce(2 * every.trained.checks.findings.inside_share, MPI.MAX)
        if world.rank == 0:
            grid = f"{case.groups} x {case.degree}, {case.kernels}"
            print(
                f"{case.workload} {grid}: with / without {median:.4f} ({low:.3f} to {high:.3f}), copies {inside:.3%}",
                flush=True,
            )


if __name__ == "__main__":
    main()
