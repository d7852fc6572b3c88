"""What the checks beside a training cost within the training time: epochs with them and without take turns.

    mpirun -np 2 python benchmarks/checks.py [--rounds 5] [--set KEY=VALUE ...]

Each training of the shipped problem is built and warmed up as in a run, without validations. In an epoch without checks
no batch, step or element is noted and no step is copied. Of each training it prints the median of the ratios of
neighbouring epochs, and the copies of audited steps by their own clock, both of the slowest rank. Needed: ratio at most
1.01, on a machine that does nothing else; single ratios vary by several percent.
"""

import argparse
import statistics
import sys
import tempfile
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import torch
from mpi4py import MPI

from hpcai.comm.shutdown import Shutdown
from hpcai.comm.world import join
from hpcai.inputfile import Case, parse, shipped_text
from hpcai.machine import device as devices
from hpcai.machine.inventory import processor, versions
from hpcai.train.loop import Training
from hpcai.training import stages
from hpcai.training.groups import ActiveGroup, in_groups
from hpcai.training.model_log import ModelLog
from hpcai.workloads.ensemble.measure import Classification
from hpcai.workloads.weather.measure import Detection

CPU = torch.device("cpu")
NOTED = ("note", "before", "after")


class Turns:
    """Switches the checks of a training off in every second epoch, and keeps the seconds of each epoch."""

    def __init__(self, training: Training, phases: Any) -> None:
        self._training, self._phases = training, phases
        self._ends: list[float] = []
        self._begin, checks = training.checks.begin, training.checks
        self._genuine = {name: getattr(checks, name) for name in NOTED}
        checks.begin = self.begin  # type: ignore[method-assign]

    def begin(self) -> None:
        """An epoch begins."""
        checks, state = self._training.checks, self._training.state
        self._ends.append(self._phases.seconds.get("training", 0.0))
        self._begin()
        on = len(self._ends) % 2 == 1
        for name, genuine in self._genuine.items():
            setattr(checks, name, genuine if on else nothing)
        state.backward_begins = checks.region.backward if on else nothing
        state.updated = checks._updated if on else nothing
        if not on:
            checks.audited._of = {}

    def ratios(self) -> list[float]:
        """Seconds of each epoch with checks / those of the next one without; the first pair does not count."""
        ends = [*self._ends, self._phases.seconds["training"]]
        seconds = [end - begin for begin, end in pairwise(ends)]
        return [on / off for on, off in zip(seconds[2::2], seconds[3::2], strict=False)]


def nothing(*_: object) -> None:
    """A check that is switched off."""


def measured(case: Case, host: str, rounds: int, active: ActiveGroup) -> tuple[list[float], float]:
    """Ratios of this rank, and the share of the copies in epochs with checks."""
    with tempfile.TemporaryDirectory() as folder:
        task: Any = Classification() if case.workload == "ensemble" else Detection(Path(folder), case.index)
        every: Any = stages._Stages(task, case, active, CPU, host, ModelLog(case, active, CPU, folder))
    training: Training = every.trained
    training.recipe = replace(training.recipe, epochs=2 * (rounds + 1), evaluate_every=2 * (rounds + 1) + 1)
    every.prepare()
    turns = Turns(training, every.phases)
    training.run(every.phases, Shutdown(MPI.COMM_SELF, 0.0))
    return turns.ratios(), 2 * training.checks.findings.inside_share


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--set", nargs="*", default=[], help="KEY=VALUE")
    chosen, world = options.parse_args(), join()
    devices.prepare(CPU, 1)
    problem = parse(shipped_text(), chosen.set)
    if world.rank == 0:
        print(f"{processor()}, torch {versions()['torch']}, {world.size} ranks, {chosen.rounds} rounds")
    for case in problem.cases(world.size, 0):
        if case.workload not in ("ensemble", "weather"):
            continue
        shutdown = Shutdown(world.comm, 0.0)
        found = in_groups(case, world, CPU, shutdown, partial(measured, case, world.host, chosen.rounds))
        shutdown.close()
        if found is None:
            continue
        ratios, own = found
        median, low, high = (world.comm.allreduce(each(ratios), MPI.MAX) for each in (statistics.median, min, max))
        inside = world.comm.allreduce(own, MPI.MAX)
        if world.rank == 0:
            grid = f"{case.groups} x {case.degree}, {case.kernels}"
            print(
                f"{case.workload} {grid}: with / without {median:.4f} ({low:.3f} to {high:.3f}), copies {inside:.3%}",
                flush=True,
            )


if __name__ == "__main__":
    main()
