"""Training throughput of a language model over that of a bare loop in plain PyTorch, both in one process.

    python benchmarks/language.py [--rounds 21] [DECODER:PLACES:BATCH:THREADS ...] [--kernels vendor custom auto]

The bare loop (bare_decoder.py) trains on one batch again and again, without loading, schedule or statistics. The two
take turns, block by block. A case is a process of its own.
"""

import argparse
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

CASES = ("decoder4x128:128:8:1", "decoder4x128:128:8:2", "decoder6x256:256:8:1", "decoder6x256:256:8:2")
BLOCK = 0.5  # seconds, about
INPUT = """\
A language model beside a bare loop
No header
[language]
generated DATASET
{network} NETWORK
{places} RESOLUTION
{samples} SAMPLES
1 GROUPS
1 DEGREE
{batch} BATCH
1 EPOCHS
{kernels} KERNELS
"""


class Match:
    """Blocks of both in turn."""

    def __init__(self, case: str, rounds: int, kernels: str) -> None:
        from bare_decoder import loop

        network, *sizes = case.split(":")
        self._places, self.batch, _ = map(int, sizes)
        blocks, width = map(int, network.removeprefix("decoder").split("x"))
        self._bare, self.rounds = loop(blocks, width, self._places, self.batch), rounds
        self._bare(2)
        begin = time.perf_counter()
        self._bare(2)
        self.steps = max(1, round(2 * BLOCK / (time.perf_counter() - begin)))
        self._network, self._kernels = network, kernels
        self.found: dict[str, list[float]] = {"ours": [], "bare": []}

    def run(self) -> None:
        """One epoch of the training, with the bare loop in its pauses."""
        from interleaved import CPU, WORLD, Transforms

        from hpcai import networks
        from hpcai.clock import Phases
        from hpcai.comm.grid import split
        from hpcai.comm.shutdown import Shutdown
        from hpcai.data.catalog import open_text_for
        from hpcai.inputfile import parse
        from hpcai.preflight.kernel_choice import choose
        from hpcai.train.providers import use_custom
        from hpcai.workloads.language.measure import Prediction

        samples = (2 + self.rounds) * self.steps * self.batch
        given = {"network": self._network, "places": self._places, "batch": self.batch, "samples": samples}
        (case,) = parse(INPUT.format(kernels=self._kernels, **given), ranks=1).cases(1, 0)
        group, data = split(WORLD, 1, 1, "row"), open_text_for(case.settings)
        assert group is not None
        graph = networks.for_data(case, data.shape, data.number_of_classes)
        training = Prediction(CPU).assemble(case, group, CPU, data, graph)
        if self._kernels == "auto":
            module: Any = training.state.module
            use_custom(module, choose(training, WORLD, CPU).choice)
        training.warm_up()
        Transforms(training, self._script())
        training.run(Phases(CPU), Shutdown(WORLD, 0.0))

    def _script(self) -> Iterator[int]:
        for _ in range(1 + self.rounds):  # the first round does not count
            begin = time.perf_counter()
            yield self.steps
            self.found["ours"].append(time.perf_counter() - begin)
            begin = time.perf_counter()
            self._bare(self.steps)
            self.found["bare"].append(time.perf_counter() - begin)

    def report(self, case: str) -> None:
        """Print rates and the median of the ratios with their quartiles."""
        ratios = [bare / ours for ours, bare in zip(*(each[1:] for each in self.found.values()), strict=True)]
        lower, middle, upper = statistics.quantiles(ratios)
        rates = (self.steps * self.batch / statistics.median(each[1:]) for each in self.found.values())
        words = ", ".join(f"{name} {rate:.2f}" for name, rate in zip(self.found, rates, strict=True))
        print(f"{case} {self._kernels:<6} {self.rounds} rounds of {self.steps} steps; sequences/s: {words}", flush=True)
        print(f"  ratio to bare, by the clock: {middle:.3f} ({lower:.3f} to {upper:.3f})", flush=True)


def launch(case: str, rounds: int, kernels: str) -> int:
    """Measure one case in a process of its own."""
    names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS")
    command = [sys.executable, __file__, "--rounds", str(rounds), "--kernels", kernels, "--here", case]
    threads = dict.fromkeys(names, case.rsplit(":", 1)[1])
    return subprocess.run(command, env={**os.environ, **threads}, check=False).returncode


def main() -> int:
    """Print the machine and the versions, then two lines for each case; 1 if one could not be measured."""
    parser = argparse.ArgumentParser(description="Throughput of a language model over that of a bare loop.")
    parser.add_argument("--rounds", type=int, default=21)
    parser.add_argument("--kernels", nargs="+", default=["vendor", "auto"], choices=["vendor", "custom", "auto"])
    parser.add_argument("--here", action="store_true", help="measure in this process")
    parser.add_argument("cases", nargs="*", default=CASES, metavar="CASE")
    options = parser.parse_args()
    if options.here:
        from interleaved import CPU

        from hpcai.machine import device as devices
        from hpcai.machine import memory

        devices.prepare(CPU, int(options.cases[0].rsplit(":", 1)[1]))
        memory.retain_freed_memory()
        match = Match(options.cases[0], options.rounds, options.kernels[0])
        match.run()
        match.report(options.cases[0])
        return 0
    from hpcai.machine.inventory import processor, versions

    print(f"{processor()}, {len(os.sched_getaffinity(0))} CPUs, load {os.getloadavg()[0]:.1f}")
    print(", ".join(f"{name} {version}" for name, version in versions().items()), flush=True)
    return max([launch(case, options.rounds, kernels) for case in options.cases for kernels in options.kernels])


if __name__ == "__main__":
    sys.exit(main())
