"""Training throughput over that of the best bare PyTorch loop, and what the harness takes of the timed region.

    python benchmarks/training.py [--rounds 41] [--block 20] [CASE ...]

A case is NETWORK:PIXELS:BATCH:THREADS, or ends in :pair: two ranks that train a model each, against two bare processes
at the same time, one thread and one core each. Every case is a process (two for a pair) in which both loops take turns,
block by block: the training pauses in the middle of an epoch while a bare loop runs. So both see the same machine.
Needed: each ratio at least 0.99, the harness at most 1 %.
"""

import argparse
import os
import subprocess
import sys
from pathlib import Path
from shutil import which

ROOT = Path(__file__).resolve().parent.parent
# network:pixels:batch:threads
CASES = (
    "resnet20:32:128:1",
    "resnet20:32:32:1",
    "resnet50:224:8:1",
    "resnet20:32:128:2",
    "resnet20:32:32:2",
    "resnet50:224:8:2",
    "resnet20:32:32:pair",
    "resnet50:224:8:pair",
)


def launch(case: str, rounds: int, block: float) -> int:
    """Run one case in processes of its own."""
    kind = case.rsplit(":", 1)[1]
    threads = "1" if kind == "pair" else kind
    launcher = [str(_mpirun()), "-np", "2"] if kind == "pair" else []
    program = [sys.executable, str(Path(__file__).with_name("interleaved.py")), case, str(rounds), str(block)]
    return subprocess.run([*launcher, *program], env={**os.environ, "OMP_NUM_THREADS": threads}, check=False).returncode


def _mpirun() -> str | Path | None:
    beside = Path(sys.executable).with_name("mpirun")
    return beside if beside.exists() else which("mpirun")


def main() -> int:
    """Print the machine and the versions, then a block of lines for each case; 1 if one could not be measured."""
    sys.path.insert(0, str(ROOT))
    from hpcai.machine.inventory import processor, versions

    parser = argparse.ArgumentParser(description="Training throughput over that of the best bare PyTorch loop.")
    parser.add_argument("--rounds", type=int, default=41)
    parser.add_argument("--block", type=float, default=20, help="GFLOP of a block of steps, one step at least")
    parser.add_argument("cases", nargs="*", default=CASES, metavar="CASE")
    options = parser.parse_args()
    print(f"{processor()}, {len(os.sched_getaffinity(0))} CPUs, load {os.getloadavg()[0]:.1f}")
    print(", ".join(f"{name} {version}" for name, version in versions().items()), flush=True)
    return max([launch(case, options.rounds, options.block) for case in options.cases])


if __name__ == "__main__":
    sys.exit(main())
