"""One case of training.py: the training of the benchmark and bare loops take turns in the same process."""

import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import bare
import numpy as np
import torch
from mpi4py import MPI

from hpcai import networks
from hpcai.clock import Phases, now
from hpcai.comm.grid import split
from hpcai.comm.shutdown import Shutdown
from hpcai.comm.world import sleeping_barrier
from hpcai.data.image_dataset import ArraySplit, Dataset
from hpcai.data.image_loader import Loader
from hpcai.inputfile import parse
from hpcai.machine import device as devices
from hpcai.models.operation_counter import Executed
from hpcai.train.loop import Training
from hpcai.training import assembly

WORLD = MPI.COMM_WORLD
CPU = torch.device("cpu")
CLASSES = {"resnet8": 10, "resnet20": 10, "resnet50": 1000}
LAYOUTS = {"contiguous": torch.contiguous_format, "channels_last": torch.channels_last}
OURS = "ours"
TRIED = 3  # rounds of both layouts
INPUT = """\
Interleaved with bare loops
No header
[ensemble]
generated DATASET
{network} NETWORK
{pixels} RESOLUTION
{classes} CLASSES
{ranks} GROUPS
1 DEGREE
{batch} BATCH
1 EPOCHS
"""
WATCHED: tuple[tuple[Any, str], ...] = (
    (Training, "_epoch"),
    (Training, "_step"),
    (Executed, "add"),
    (Executed, "end_backward"),
    (Loader, "_load"),
)


class Spent:
    """Seconds inside some functions, while they are watched; the watching itself is part of them."""

    def __init__(self, clock: Callable[[], float] = now) -> None:
        self.seconds, self._clock = 0.0, clock

    def watch(self, owner: Any, name: str) -> None:
        """From now on add up the time in `owner.name`."""
        genuine = getattr(owner, name)

        def watched(*arguments: Any, **keywords: Any) -> Any:
            begin = self._clock()
            result = genuine(*arguments, **keywords)
            self.seconds += self._clock() - begin
            return result

        setattr(owner, name, watched)


class Transforms:
    """The training runs until the script wants something else: at each `yield` it says for how many steps."""

    def __init__(self, training: Training, script: Iterator[int]) -> None:
        self._script, self._left = script, next(script)
        self._genuine = training.step_times.mark
        training.step_times.mark = self._mark  # type: ignore[method-assign]  # called once at the end of each step

    def _mark(self) -> None:
        self._genuine()
        self._left -= 1
        if self._left == 0:
            self._left = next(self._script, -1)


def built(network: str, pixels: int, batch: int, steps: int) -> Training:
    """The training that the benchmark makes, on random pictures in memory; one model on each rank."""
    group = split(WORLD, WORLD.size, 1, "row")
    assert group is not None
    values = {"network": network, "pixels": pixels, "batch": batch, "classes": CLASSES[network], "ranks": WORLD.size}
    case = parse(INPUT.format(**values), ranks=WORLD.size).cases(WORLD.size, 0)[0]
    random = np.random.default_rng(WORLD.rank)
    shape, half = (3, pixels, pixels), (0.5, 0.5, 0.5)
    halves = [
        ArraySplit(random.integers(0, 256, (samples, *shape), np.uint8), random.integers(0, CLASSES[network], samples))
        for samples in (steps * batch, 2 * batch)
    ]
    dataset = Dataset("random", "memory", shape, CLASSES[network], half, half, 1.0, "0" * 64, *halves)
    graph = networks.for_data(case, shape, CLASSES[network])
    training = assembly.model_training(case, group, CPU, dataset, graph)
    # the bootstrap of a pair has as many draws as there are samples; alone it is the whole set
    assert training.shard.steps == steps
    return training


class Match:
    """Blocks of both kinds in turn."""

    def __init__(self, network: str, pixels: int, batch: int, rounds: int, gflop: float) -> None:
        self.batch, self.rounds = batch, rounds
        operations = {"resnet20": 246e6 * (pixels / 32) ** 2, "resnet50": 24.3e9 * (pixels / 224) ** 2}[network]
        self.steps = max(1, round(1e9 * gflop / operations / batch))
        self.found: dict[str, list[tuple[float, float]]] = {}
        self.loops = {
            layout: bare.loop(getattr(bare, network)(CLASSES[network]), batch, pixels, CLASSES[network], memory)
            for layout, memory in LAYOUTS.items()
        }
        self.alone = WORLD.size > 1
        own = (1 + rounds) * self.steps * (2 if self.alone and WORLD.rank == 0 else 1)
        self.training = built(network, pixels, batch, own)

    def run(self) -> None:
        """One epoch of the training, with the bare loops in its pauses."""
        self.training.warm_up()
        Transforms(self.training, self._script())
        self.training.run(Phases(CPU), Shutdown(MPI.COMM_SELF, 0.0))

    def _script(self) -> Iterator[int]:
        for turn in range(1 + self.rounds):  # the first round does not count
            players = [OURS, *self._contenders()]
            first = turn % len(players)  # nobody always has the same one before him
            for name in players[first:] + players[:first]:
                sleeping_barrier(WORLD)
                yield from self._timed(name, self.loops.get(name))
            sleeping_barrier(WORLD)
            if self.alone and WORLD.rank == 0:
                yield from self._timed(f"{OURS} alone", None)

    def _contenders(self) -> list[str]:
        """Both layouts for some rounds, from then on the faster one."""
        if min(len(self.found.get(name, [])) for name in LAYOUTS) <= TRIED:  # the first round does not count
            return [*LAYOUTS]
        return [min(LAYOUTS, key=lambda name: statistics.median(self.seconds(name, 0)))]

    def _timed(self, name: str, train: Callable[[int], None] | None) -> Iterator[int]:
        begin, used = now(), time.process_time()
        if train is None:
            yield self.steps
        else:
            train(self.steps)
        self.found.setdefault(name, []).append((now() - begin, time.process_time() - used))

    def seconds(self, name: str, kind: int) -> list[float]:
        """Of the slower rank, round by round; kind 0 by the clock, 1 of the processor. Collective."""
        own = np.array([pair[kind] for pair in self.found.get(name, [])[1:]] or [0.0] * self.rounds)
        WORLD.Allreduce(MPI.IN_PLACE, own, MPI.MAX)
        return list(own)


def harness_share(training: Training, clock: Callable[[], float]) -> tuple[float, float, float]:
    """Shares of an epoch outside forward, backward and update, of counting operations, and of loading beside it.

    Counting is inside forward and backward, loading in a thread that takes its time from the training where there is
    no processor to spare. Without the copies of the one step an epoch that is audited.
    """
    epoch, step, counting, audit = (Spent(clock) for _ in range(4))
    loading = Spent(time.thread_time)
    training.warm_up()
    originals = {(owner, name): getattr(owner, name) for owner, name in WATCHED}
    epoch.watch(Training, "_epoch")
    step.watch(Training, "_step")
    counting.watch(Executed, "add")
    counting.watch(Executed, "end_backward")
    loading.watch(Loader, "_load")
    for name in ("before", "after"):
        audit.watch(training.replay, name)
    training.run(Phases(CPU), Shutdown(MPI.COMM_SELF, 0.0))
    for (owner, name), genuine in originals.items():
        setattr(owner, name, genuine)
    total = epoch.seconds - audit.seconds
    return (total - step.seconds) / total, counting.seconds / total, loading.seconds / total


def report(case: str, match: Match) -> None:
    """Print the rates and ratios. Collective; the first rank prints."""
    lines = []
    seconds = {name: match.seconds(name, 0) for name in (OURS, *LAYOUTS)}
    used = {name: match.seconds(name, 1) for name in (OURS, *LAYOUTS)}
    samples = WORLD.size * match.steps * match.batch
    best = min(LAYOUTS, key=lambda name: (-len(seconds[name]), statistics.median(seconds[name])))
    for name, times in seconds.items():
        lines.append(f"{name:<14} {samples / statistics.median(times):10.2f} images/s")
    for kind, times in (("by the clock", seconds), ("by processor time", used)):
        ratios = [theirs / ours for ours, theirs in zip(times[OURS], times[best], strict=True)]
        spread = f"{min(ratios):.4f} to {max(ratios):.4f}"
        lines.append(f"ratio to bare {best}, {kind}: {statistics.median(ratios):.4f} ({spread})")
    if match.alone:
        alone = match.seconds(f"{OURS} alone", 0)
        efficiency = [one / both for one, both in zip(alone, seconds[OURS], strict=True)]
        lines.append(f"raw parallel efficiency of two ranks: {statistics.median(efficiency):.4f}")
    title = f"{case}: {match.rounds} rounds of {match.steps} steps"
    if WORLD.rank == 0:
        print("\n".join([title, *(f"  {line}" for line in lines)]), flush=True)


def main() -> None:
    """Measure one case: NETWORK:PIXELS:BATCH:THREADS or :pair, number of rounds, GFLOP of a block of steps."""
    network, *sizes, kind = sys.argv[1].split(":")
    pixels, batch = map(int, sizes)
    threads = 1 if kind == "pair" else int(kind)
    cpus = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, [cpus[WORLD.rank % len(cpus)]] if threads == 1 else cpus)
    devices.prepare(CPU, threads)
    match = Match(network, pixels, batch, int(sys.argv[2]), float(sys.argv[3]))
    match.run()
    report(sys.argv[1], match)
    for words, clock in (("the clock", now), ("processor time", time.thread_time)):
        training = built(network, pixels, batch, 2 * match.steps)
        outside, counting, loading = harness_share(training, clock)
        parts = f"{outside:.4%} outside the steps, {counting:.4%} counting in them, {loading:.4%} loading beside"
        if WORLD.rank == 0:
            print(f"  harness by {words}: {parts}", flush=True)


if __name__ == "__main__":
    main()
