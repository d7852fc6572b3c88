"""Trainings of an input as in a run, without validations, of which every second epoch differs in something."""

import argparse
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from mpi4py import MPI

from hpcai.comm.shutdown import Shutdown
from hpcai.comm.world import World, join
from hpcai.inputfile import Case, parse, shipped_text
from hpcai.machine import device as devices
from hpcai.machine.inventory import processor, versions
from hpcai.training import stages
from hpcai.training.groups import ActiveGroup, in_groups
from hpcai.training.model_log import ModelLog
from hpcai.workloads.ensemble.measure import Classification
from hpcai.workloads.weather.measure import Detection

CPU = torch.device("cpu")
Switch = Callable[[Any, bool], None]  # called with the stages of a case, and whether the next epoch differs


class Turns:
    """Switches something on and off in turns, epoch by epoch, and keeps the seconds of the phases at each begin."""

    def __init__(self, every: Any, switch: Switch) -> None:
        self._every, self._switch = every, switch
        self._at: list[dict[str, float]] = []
        checks = every.trained.checks
        self._begin, checks.begin = checks.begin, self.begin

    def begin(self) -> None:
        """An epoch begins, or goes on after a pause."""
        self._begin()
        if self._every.trained.state.progress.step == 0:
            self._at.append(dict(self._every.phases.seconds))
            self._switch(self._every, len(self._at) % 2 == 1)

    def pairs(self, phase: str) -> list[tuple[float, float]]:
        """Seconds of a phase in each epoch that differs and in the next one; the first pair does not count."""
        at = [each.get(phase, 0.0) for each in [*self._at, self._every.phases.seconds]]
        seconds = [end - begin for begin, end in pairwise(at)]
        return list(zip(seconds[2::2], seconds[3::2], strict=False))


def measured(case: Case, host: str, rounds: int, switch: Switch, active: ActiveGroup) -> tuple[Turns, Any]:
    """A training of so many pairs of epochs, and one more before them; with its stages. Collective."""
    with tempfile.TemporaryDirectory() as folder:
        classifies = case.workload == "ensemble"
        task: Any = Classification(case, folder) if classifies else Detection(Path(folder), case.index)
        every: Any = stages._Stages(task, case, active, CPU, host, ModelLog(case, active, CPU, folder), folder)
        training = every.trained
        training.recipe = replace(training.recipe, epochs=2 * (rounds + 1), evaluate_every=2 * (rounds + 1) + 1)
        every.prepare()
        turns = Turns(every, switch)
        every.kept.watch(training)
        training.run(every.phases, Shutdown(MPI.COMM_SELF, 0.0), callback=every.kept)
        every.kept.close()
    return turns, every


def options(text: str | None) -> argparse.ArgumentParser:
    """Of such a benchmark."""
    parser = argparse.ArgumentParser(description=(text or "").partition("\n")[0])
    parser.add_argument("input", nargs="?", type=Path, help="an input file; the shipped problem by default")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--set", nargs="*", default=[], help="KEY=VALUE")
    return parser


def trainings(chosen: argparse.Namespace, switch: Switch) -> Iterator[tuple[World, Case, Turns, Any]]:
    """Each training of the problem, on the ranks that take part; rank 0 prints the machine before."""
    world = join()
    devices.prepare(CPU, 1)
    text = chosen.input.read_text(encoding="utf-8") if chosen.input else shipped_text()
    problem = parse(text, chosen.set)
    if world.rank == 0:
        print(f"{processor()}, torch {versions()['torch']}, {world.size} ranks, {chosen.rounds} rounds")
    for case in problem.cases(world.size, 0):
        if case.workload not in ("ensemble", "weather"):
            continue
        shutdown = Shutdown(world.comm, 0.0)
        measure = partial(measured, case, world.host, chosen.rounds, switch)
        found = in_groups(case, world, CPU, shutdown, measure)
        shutdown.close()
        if found is not None:
            yield world, case, *found
