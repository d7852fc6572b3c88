"""Seconds from mpirun to the end of the first timed step, beside those of a bare PyTorch program, in turns.

    python benchmarks/start_up.py [--rounds 5] [--ranks 2]

The bare program imports mpi4py and torch, and trains one layer for a step. A round that does not count comes first: it
compiles the custom kernels, if they are not on disk.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.util import find_spec
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

INPUT = """\
Start-up
No header
[ensemble]
fashion DATASET
resnet8 NETWORK
128     SAMPLES
0       GROUPS
1       DEGREE
32      BATCH
1       EPOCHS
"""
PROGRAMS = ("ours", "bare")


class Telling(MetaPathFinder):
    """Lets the first mark of a step tell the time, once its module is imported: before, torch would be as well."""

    def find_spec(self, name: str, path: Any, target: Any = None) -> Any:
        """None, but for the module of the marks."""
        if name != "hpcai.train.step_times":
            return None
        sys.meta_path.remove(self)
        spec: Any = find_spec(name)
        execute = spec.loader.exec_module

        def execute_and_change(module: Any) -> None:
            execute(module)
            genuine = module.StepTimes.mark

            def mark(of: Any) -> None:
                genuine(of)
                module.StepTimes.mark = genuine
                tell()

            module.StepTimes.mark = mark

        spec.loader.exec_module = execute_and_change
        return spec


def ours() -> None:
    """Run bench.py."""
    from hpcai.main import command

    sys.meta_path.insert(0, Telling())
    sys.argv = [str(Path.cwd() / "bench.py"), "input.dat"]
    command()


def bare() -> None:
    """A step of one layer on each rank."""
    import torch
    from mpi4py import MPI

    sys.argv = [str(Path.cwd() / "bare.py")]

    layer = torch.nn.Conv2d(1, 16, 3)
    optimiser = torch.optim.SGD(layer.parameters(), 0.1)
    layer(torch.zeros(32, 1, 28, 28)).sum().backward()
    optimiser.step()
    MPI.COMM_WORLD.Barrier()
    tell()


def tell() -> None:
    """Write the time to a file of this rank: only the first rank of bench.py speaks."""
    (Path(sys.argv[0]).parent / f"{MARK}{os.getpid()}").write_text(str(time.time()))


MARK = "first-step-"


def started(program: str, ranks: int, folder: str) -> float:
    """Seconds from mpirun to the end of the first step of the last rank."""
    begin = time.time()
    command = [Path(sys.executable).with_name("mpirun"), "-np", str(ranks), sys.executable, __file__, "--here", program]
    subprocess.run(command, cwd=folder, stdout=subprocess.DEVNULL, check=True)
    files = [*Path(folder).glob(f"{MARK}*")]
    marks = [float(file.read_text()) for file in files]
    for file in files:
        file.unlink()
    if len(marks) != ranks:
        raise RuntimeError(f"{program}: {len(marks)} of {ranks} ranks told the time of their first step")
    return max(marks) - begin


def main(arguments: Sequence[str]) -> int:
    """Print the medians of both, and of their ratio."""
    parser = argparse.ArgumentParser(description="Seconds from mpirun to the first timed step.")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--here", choices=PROGRAMS, help="be a rank of a program")
    options = parser.parse_args(arguments)
    if options.here:
        globals()[options.here]()
        return 0
    found: dict[str, list[float]] = {name: [] for name in PROGRAMS}
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "input.dat").write_text(INPUT)
        for _ in range(1 + options.rounds):
            for name in PROGRAMS:
                found[name].append(started(name, options.ranks, folder))
    own, other = (each[1:] for each in found.values())
    ratio = statistics.median(one / another for one, another in zip(own, other, strict=True))
    print(f"ours {statistics.median(own):.2f} s, bare {statistics.median(other):.2f} s, ratio {ratio:.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
