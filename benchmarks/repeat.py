"""How much the rate of the shipped problem varies: coefficient of variation of FLOPS over five runs of each test.

    python benchmarks/repeat.py [--repeat 5] [--ranks 2] [--set KEY=VALUE ...]

Each repetition has a seed of its own, as with the KEY REPEAT; the figures are read from the result files. Between them
a bare training loop runs on all processors: how much its rate varies is the machine's part. Needed: at most 2 % on a
quiet machine.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from shutil import which
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from hpcai.inputfile import shipped_text  # noqa: E402, the checkout comes first
from hpcai.machine.inventory import processor, versions  # noqa: E402

BARE_SECONDS = 12.0  # about the time of a training of the shipped problem
VARIES = ("SEED",)  # from one repetition to the next


def run(ranks: int, settings: list[str]) -> list[dict[str, Any]]:
    """The tests of one run of the shipped problem, in a folder that goes with it."""
    beside = Path(sys.executable).with_name("mpirun")
    launcher = str(beside) if beside.exists() else str(which("mpirun"))
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "input.dat").write_text(shipped_text(), encoding="utf-8")
        command = [launcher, "-np", str(ranks), sys.executable, str(ROOT / "bench.py"), "--set", *settings]
        subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL)
        (result,) = Path(folder).glob("results/*/result.json")
        tests: list[dict[str, Any]] = json.loads(result.read_text("utf-8"))["tests"]
    return tests


def variations(tests: list[dict[str, Any]]) -> dict[str, tuple[int, float, float]]:
    """Number, mean and coefficient of variation (sample deviation / mean) of the GFLOP/s of tests that are alike."""
    rates: dict[str, list[float]] = {}
    for test in tests:
        settings = {key: value for key, value in test["settings"].items() if key not in VARIES}
        rates.setdefault(json.dumps([test["workload"], settings], sort_keys=True), []).append(test["gflops"])
    found = {}
    for settings_text, values in rates.items():
        workload, settings = json.loads(settings_text)
        mean = statistics.mean(values)
        spread = statistics.stdev(values) / mean if len(values) > 1 else 0.0
        found[f"[{workload}] P x Q = {settings['GROUPS']} x {settings['DEGREE']}"] = (len(values), mean, spread)
    return found


def bare_loop(seconds: float) -> Callable[[], float]:
    """A function that runs a bare loop, about so long, on all processors; it returns the rate in steps a second."""
    import bare
    import torch

    torch.set_num_threads(len(os.sched_getaffinity(0)))
    train = bare.loop(bare.resnet20(), 64, 28, 10, torch.channels_last)

    def rate(steps: int) -> float:
        begin = time.perf_counter()
        train(steps)
        return steps / (time.perf_counter() - begin)

    rate(3)
    steps = max(1, round(seconds * rate(10)))
    return lambda: rate(steps)


def main() -> None:
    """Print the machine, the versions, and a line for each test of the problem."""
    parser = argparse.ArgumentParser(description="Coefficient of variation of FLOPS over repetitions.")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--set", nargs="+", default=[], metavar="KEY=VALUE")
    options = parser.parse_args()
    print(f"{processor()}, {len(os.sched_getaffinity(0))} CPUs, load {os.getloadavg()[0]:.1f}")
    print(", ".join(f"{name} {version}" for name, version in versions().items()), flush=True)
    alone, tests, rates = bare_loop(BARE_SECONDS), [], []
    for seed in range(1, options.repeat + 1):
        tests += run(options.ranks, [f"SEED={seed}", *options.set])
        rates.append(alone())
    spread = statistics.stdev(rates) / statistics.mean(rates) if len(rates) > 1 else 0.0
    print(f"the machine alone: {len(rates)} bare loops between the runs, coefficient of variation {spread:.4f}")
    for name, (count, mean, spread) in variations(tests).items():
        print(f"{name}: {count} runs, {mean:.2f} GFLOP/s, coefficient of variation {spread:.4f}")


if __name__ == "__main__":
    main()
