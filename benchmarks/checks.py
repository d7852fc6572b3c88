"""What the checks beside a training cost within the training time: steps with them and without take turns.

    mpirun -np 2 python benchmarks/checks.py [INPUT] [--rounds 5] [--set KEY=VALUE ...]

Each training of the shipped problem is built and warmed up as in a run, without validations. In every second step no
batch, backward pass, update or element is noted; of twice as many epochs as rounds and two more, the first two do not
count. Of each training it prints the median of the ratios of neighbouring steps with its standard error, the seconds
within the noting calls as a share of those steps, and the copies of audited steps by their own clock, each of the rank
with the most. Needed: calls and copies together at most 1 %, and the ratio no more than that above 1 within its error,
on a machine that does nothing else.
"""

import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy as np
from epoch_turns import options, trainings
from mpi4py import MPI

from hpcai.clock import now

NORMAL = math.sqrt(math.pi / 2)  # standard error of a median over that of a mean, of a normal distribution
QUARTILES = 1.349  # distance of the quartiles of a normal distribution, in standard deviations


class StepTurns:
    """Switches the checks of a training on and off, step by step."""

    def __init__(self, every: Any) -> None:
        self._state, self._checks, times = every.trained.state, every.trained.checks, every.trained.step_times
        checks, self.seconds = self._checks, 0.0
        self._calls = tuple(map(self._timed, (checks.note, checks.region.backward, checks._updated)))
        self._mark, times.mark = times.mark, self.mark

    def mark(self) -> None:
        """A step ends, or an epoch begins."""
        self._mark()
        on = with_checks(self._state.progress.epoch, self._state.progress.step)
        calls = self._calls if on else (nothing, nothing, nothing)
        self._checks.note, self._state.backward_begins, self._state.updated = calls

    def _timed(self, call: Callable[..., None]) -> Callable[..., None]:
        def timed(*given: Any) -> None:
            begun = now()
            call(*given)
            self.seconds += now() - begun

        return timed


def with_checks(epoch: int, step: int) -> bool:
    """Whether a step, both from 0, is one with checks."""
    return (epoch + step) % 2 == 0


def switch(every: Any, _: bool) -> None:
    """Let steps take turns from the first epoch on."""
    if not hasattr(every, "step_turns"):
        every.step_turns = StepTurns(every)


def nothing(*_: object) -> None:
    """A check that is switched off."""


def ratios(epochs: list[Any]) -> Any:
    """float64[pairs]: seconds of a step with checks over those of its neighbour without; of full batches."""
    found = []
    for epoch, seconds in list(enumerate(epochs))[2:]:
        pairs = seconds[: (len(seconds) - 1) // 2 * 2].reshape(-1, 2)
        found.append(pairs[:, 0] / pairs[:, 1] if with_checks(epoch, 0) else pairs[:, 1] / pairs[:, 0])
    return np.concatenate(found)


def median(found: Any) -> tuple[float, float]:
    """With its standard error."""
    low, middle, high = np.quantile(found, (0.25, 0.5, 0.75))
    return float(middle), float(NORMAL * (high - low) / QUARTILES / math.sqrt(len(found)))


def main() -> None:
    for world, case, _, every in trainings(options(__doc__).parse_args(), switch):
        found = ratios(every.trained.step_times._epochs)
        most, error = world.comm.allreduce(median(found), MPI.MAX)
        inside = world.comm.allreduce(every.trained.checks.findings.inside_share, MPI.MAX)
        calls = world.comm.allreduce(2 * every.step_turns.seconds / every.trained.step_times.seconds.sum(), MPI.MAX)
        if world.rank == 0:
            grid = f"{case.groups} x {case.degree}, {case.kernels}"
            print(
                f"{case.workload} {grid}: with / without {most:.4f} +- {error:.4f} of {len(found)} pairs, "
                f"calls {calls:.3%}, copies {inside:.3%}",
                flush=True,
            )


if __name__ == "__main__":
    main()
