"""Training throughput of each WIRE and ALLREDUCE over a shaped link between two hosts of network namespaces.

    python benchmarks/link.py [--rate 1gbit] [--ranks 1 2] [--wire …] [--allreduce …] [--rounds 7] [--steps 2]
                              [--network resnet18] [--pixels 8] [--batch 2]

The case is bound by communication: many parameters, few operations. All combinations take turns in the same processes.
The ratio is the median over the rounds of the throughput over that of the first combination in the same round; bytes
are those that the busiest host sent, by the counter of its interface. Needed: root; without, it says so and ends.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Sequence
from itertools import product
from pathlib import Path

from hosts import Hosts, obstacle

ROOT = Path(__file__).resolve().parent.parent
UNSHAPED = "none"
NONE = "none"  # the path without exchange
Rounds = list[tuple[float, float]]  # seconds and bytes of a step


def choices(key: str) -> list[str]:
    """The choices of a KEY, but not `auto`, which takes one of the others."""
    from hpcai.inputfile.keys import keys_by_name

    return [choice for choice in keys_by_name()[key].choices if choice != "auto"]


def line(path: str, rounds: Rounds, reference: Rounds, samples: int) -> str:
    """One row: median and spread of the throughput, ratio to the reference, bytes."""
    rates = [samples / seconds for seconds, _ in rounds]
    ratios = [theirs / ours for (ours, _), (theirs, _) in zip(rounds, reference, strict=True)]
    milliseconds, megabytes = (statistics.median(values) for values in zip(*rounds, strict=True))
    wire, _, reduction = path.partition(" ")
    rate = f"{statistics.median(rates):8.1f} {f'{min(rates):.1f}-{max(rates):.1f}':>15}"
    ratio = f"{statistics.median(ratios):6.2f} ({min(ratios):.2f}-{max(ratios):.2f})"
    return f"{wire:5} {reduction:13} {rate} {1e3 * milliseconds:8.1f} {ratio:>20} {megabytes / 1e6:9.2f}"


def table(found: dict[str, dict[str, Rounds]], samples: int) -> list[str]:
    """The rows of all combinations, and those that the program refused."""
    measured = found["measured"]
    reference = measured[next(iter(measured))]
    head = "WIRE  ALLREDUCE     images/s        (spread)  ms/step       ratio (spread)   MB/step"
    rows = [line(path, rounds, reference, samples) for path, rounds in measured.items()]
    return [head, *rows, *(f"{path}: refused: {reason}" for path, reason in found["refused"].items())]


def measure(options: argparse.Namespace, ranks: int, paths: Sequence[str]) -> int:
    """Print the table for as many ranks a host; 1 if the job fails."""
    rate = None if options.rate == UNSHAPED else options.rate
    sizes = [str(getattr(options, name)) for name in ("network", "pixels", "batch", "rounds", "steps")]
    program = [sys.executable, str(Path(__file__).with_name("link_steps.py")), *sizes, *paths]
    with Hosts(2, rate) as hosts:
        finished = hosts.run(program, ranks, cwd=ROOT, timeout=options.limit)
    if finished.returncode:
        print(finished.stdout, finished.stderr, sep="\n", file=sys.stderr)
        return 1
    print(f"\n2 hosts, ranks a host: {ranks}, link {options.rate}; {options.rounds} rounds of {options.steps} steps")
    found = json.loads(finished.stdout.splitlines()[-1])
    print("\n".join(table(found, 2 * ranks * options.batch)), flush=True)
    return 0


def parsed() -> argparse.Namespace:
    """The options of the command line."""
    parser = argparse.ArgumentParser(description="Training throughput over a shaped link.")
    parser.add_argument("--rate", default="1gbit", help=f"of the link, as tc writes it; {UNSHAPED}: no shaping")
    parser.add_argument("--network", default="resnet18")
    for name, default in (("pixels", 8), ("batch", 2), ("rounds", 7), ("steps", 2)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--ranks", type=int, nargs="+", default=[1, 2], help="ranks a host")
    for name in ("wire", "allreduce"):
        known = choices(name.upper())
        parser.add_argument(f"--{name}", nargs="+", choices=known, default=known)
    parser.add_argument("--limit", type=float, default=300, help="seconds for each number of ranks")
    return parser.parse_args()


def main() -> int:
    """Print the machine and the versions, then a table for each number of ranks a host."""
    sys.path.insert(0, str(ROOT))
    from hpcai.machine.inventory import processor, versions

    options = parsed()
    if reason := obstacle():
        print(f"benchmarks/link.py: not run: {reason}")
        return 0
    print(f"{processor()}, {len(os.sched_getaffinity(0))} CPUs, load {os.getloadavg()[0]:.1f}")
    print(", ".join(f"{name} {version}" for name, version in versions().items()))
    print(f"{options.network} at {options.pixels}², batch {options.batch} a rank")
    paths = [f"{wire} {reduction}" for wire, reduction in product(options.wire, options.allreduce)]
    return max([measure(options, ranks, paths) for ranks in options.ranks])


if __name__ == "__main__":
    try:
        sys.exit(main())
    except subprocess.TimeoutExpired as expired:
        sys.exit(f"benchmarks/link.py: the job took more than {expired.timeout:.0f} s")
