"""Training throughput of a detector over that of a bare loop over the same modules, both in one process.

    python benchmarks/detector.py [--rounds 21] [NETWORK:ROWS:BATCH:CORES ...]

Generated frames lie in memory; the bare loop trains on two of their batches again and again, without loading. The two
take turns, block by block. On one core the thread that turns and normalises frames shares it with the training; on two
it has one of its own, as it has where a rank has several.
"""

import argparse
import os
import statistics
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy as np
import torch
from interleaved import Transforms
from mpi4py import MPI

from hpcai import networks
from hpcai.clock import Phases, now
from hpcai.comm.grid import split
from hpcai.comm.shutdown import Shutdown
from hpcai.data.catalog import open_weather
from hpcai.data.weather.weather_dataset import Weather
from hpcai.data.weather.weather_loader import Loader
from hpcai.inputfile import parse
from hpcai.machine import device as devices
from hpcai.machine import memory
from hpcai.models.detection.detector import build
from hpcai.train.loop import Training
from hpcai.workloads.weather.measure import model_training

CPU = torch.device("cpu")
CASES = ("fasterrcnn8:96:16:2", "fasterrcnn8:96:16:1", "fasterrcnn18:192:4:2")
BLOCK = 1.0  # seconds, about
INPUT = """\
A detector beside a bare loop
No header
[weather]
generated DATASET
{network} NETWORK
{rows} RESOLUTION
2 CLASSES
1 GROUPS
1 DEGREE
{batch} BATCH
1 EPOCHS
"""


class Repeated:
    """A split of so many frames, of which a few lie in memory."""

    def __init__(self, frames: np.ndarray, boxes: np.ndarray, samples: int) -> None:
        self._frames, self._boxes, self._samples = frames, boxes, samples
        self.nbytes, self.itemsize = frames.nbytes, 4

    def __len__(self) -> int:
        return self._samples

    def frames(self, indices: np.ndarray) -> np.ndarray:
        """Fields at the indices."""
        return self._frames[indices % len(self._frames)]

    def boxes(self, indices: np.ndarray) -> np.ndarray:
        """Boxes at the indices."""
        return self._boxes[indices % len(self._boxes)]


class Match:
    """Blocks of both in turn."""

    def __init__(self, network: str, rows: int, batch: int, rounds: int) -> None:
        values = INPUT.format(network=network, rows=rows, batch=batch)
        self.case = parse(values, ranks=1).cases(1, 0)[0]
        self.rounds, self.batch = rounds, batch
        self.data = open_weather("generated", 2 * batch, classes=2, resolution=rows)
        self.graph = networks.for_data(self.case, self.data.shape, 2)
        self.module = build(self.graph, 0).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.batches = list(Loader(self.data, self.data.train, CPU, batch=batch)(np.arange(2 * batch).reshape(2, -1)))
        self.steps = 1
        self.steps = max(1, round(BLOCK / min(self._bare() for _ in range(3))))
        self.found: dict[str, list[tuple[float, float]]] = {"ours": [], "bare": []}

    def _bare(self) -> float:
        """Seconds of a block of the bare loop."""
        optimiser = torch.optim.SGD(self.module.parameters(), lr=1e-4, momentum=0.9, weight_decay=1e-4, fused=True)
        begin = now()
        for step in range(self.steps):
            x, y, _ = self.batches[step % 2]
            self.module(x, y, step).sum().backward()
            optimiser.step()
            optimiser.zero_grad(set_to_none=False)
        return now() - begin

    def run(self) -> None:
        """One epoch of the training, with the bare loop in its pauses."""
        training = self._training((1 + self.rounds) * self.steps)
        training.warm_up()
        Transforms(training, self._script())
        training.run(Phases(CPU), Shutdown(MPI.COMM_SELF, 0.0))

    def _training(self, steps: int) -> Training:
        indices = np.arange(2 * self.batch)
        frames, boxes = self.data.train.frames(indices), self.data.train.boxes(indices)
        parts: Any = [Repeated(frames, boxes, samples) for samples in (steps * self.batch, self.batch)]
        told = (self.data.shape, self.data.classes, self.data.mean, self.data.std, 1.0, "0" * 64)
        group = split(MPI.COMM_SELF, 1, 1, "row")
        assert group is not None
        return model_training(self.case, group, CPU, Weather("repeated", "memory", *told, *parts), self.graph)

    def _script(self) -> Iterator[int]:
        for _ in range(1 + self.rounds):  # the first round does not count
            begin, used = now(), time.process_time()
            yield self.steps
            self.found["ours"].append((now() - begin, time.process_time() - used))
            begin, used = now(), time.process_time()
            self._bare()
            self.found["bare"].append((now() - begin, time.process_time() - used))

    def report(self, case: str) -> None:
        """Print rates and ratios."""
        print(f"{case}: {self.rounds} rounds of {self.steps} steps")
        for name, pairs in self.found.items():
            rate = self.steps * self.batch / statistics.median(pair[0] for pair in pairs[1:])
            print(f"  {name:<14} {rate:10.2f} frames/s")
        for kind, words in enumerate(("the clock", "processor time")):
            pairs = zip(self.found["ours"][1:], self.found["bare"][1:], strict=True)
            ratios = [theirs[kind] / ours[kind] for ours, theirs in pairs]
            spread = f"{min(ratios):.4f} to {max(ratios):.4f}"
            print(f"  ratio to bare, by {words}: {statistics.median(ratios):.4f} ({spread})", flush=True)


def main() -> None:
    """Measure the cases one after the other."""
    parser = argparse.ArgumentParser(description="Training throughput of a detector over that of a bare loop.")
    parser.add_argument("--rounds", type=int, default=21)
    parser.add_argument("cases", nargs="*", default=CASES, metavar="CASE")
    options = parser.parse_args()
    every = sorted(os.sched_getaffinity(0))
    devices.prepare(CPU, 1)
    memory.retain_freed_memory()
    for case in options.cases:
        network, *sizes = case.split(":")
        rows, batch, cores = map(int, sizes)
        os.sched_setaffinity(0, every[:cores])
        match = Match(network, rows, batch, options.rounds)
        match.run()
        match.report(case)


if __name__ == "__main__":
    main()
