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
from collections.abc import Callable, Sequence
from itertools import product
from pathlib import Path
from typing import Any, NoReturn

from hosts import Hosts, obstacle

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
UNSHAPED = "none"
NONE = "none"  # the path without exchange
Rounds = list[tuple[float, float, float]]  # seconds of a step, bytes of the busiest host and of a rank


def choices(key: str) -> list[str]:
    """The choices of a KEY, but not `auto`, which takes one of the others."""
    from hpcai.inputfile.keys import keys_by_name

    return [choice for choice in keys_by_name()[key].choices if choice != "auto"]


def label(path: str) -> str:
    """The values of a path's settings."""
    return " ".join(setting.rpartition("=")[2] for setting in path.split())


def line(path: str, rounds: Rounds, reference: Rounds, samples: int) -> str:
    """One row: median and spread of the throughput, ratio to the reference, bytes over the link."""
    rates = [samples / seconds for seconds, *_ in rounds]
    ratios = [theirs / ours for (ours, *_), (theirs, *_) in zip(rounds, reference, strict=True)]
    milliseconds, megabytes, _ = (statistics.median(values) for values in zip(*rounds, strict=True))
    rate = f"{statistics.median(rates):8.1f} {f'{min(rates):.1f}-{max(rates):.1f}':>15}"
    ratio = f"{statistics.median(ratios):6.2f} ({min(ratios):.2f}-{max(ratios):.2f})"
    return f"{label(path):19} {rate} {1e3 * milliseconds:8.1f} {ratio:>20} {megabytes / 1e6:9.2f}"


def table(found: dict[str, dict[str, Any]], samples: int, names: str = "WIRE  ALLREDUCE") -> list[str]:
    """The rows of all paths, and the paths that the program refused; `names` heads the labels."""
    measured = found["measured"]
    reference = measured[next(iter(measured))]
    head = f"{names:19} images/s        (spread)  ms/step       ratio (spread)   MB/step"
    rows = [line(path, rounds, reference, samples) for path, rounds in measured.items()]
    return [head, *rows, *(f"{label(path)}: refused: {reason}" for path, reason in found["refused"].items())]


def steps_over_link(options: argparse.Namespace, ranks: int, paths: Sequence[str]) -> dict[str, dict[str, Any]]:
    """What link_steps.py found with as many ranks a host; RuntimeError if the job fails."""
    rate = None if options.rate == UNSHAPED else options.rate
    sizes = [str(getattr(options, name)) for name in ("network", "pixels", "batch", "rounds", "steps")]
    program = [sys.executable, str(Path(__file__).with_name("link_steps.py")), *sizes, *paths]
    with Hosts(2, rate) as hosts:
        finished = hosts.run(program, ranks, cwd=ROOT, timeout=options.limit)
    if finished.returncode:
        raise RuntimeError(f"{finished.stdout}\n{finished.stderr}")
    found: dict[str, dict[str, Any]] = json.loads(finished.stdout.splitlines()[-1])
    return found


def described(options: argparse.Namespace, ranks: int) -> str:
    """The line above a table."""
    return f"2 hosts, ranks a host: {ranks}, link {options.rate}; {options.rounds} rounds of {options.steps} steps"


def machine() -> str:
    """Processor, load and versions, in two lines."""
    from hpcai.machine.inventory import processor, versions

    load = f"{processor()}, {len(os.sched_getaffinity(0))} CPUs, load {os.getloadavg()[0]:.1f}"
    return f"{load}\n" + ", ".join(f"{name} {version}" for name, version in versions().items())


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
    options = parsed()
    if reason := obstacle():
        print(f"benchmarks/link.py: not run: {reason}")
        return 0
    print(f"{machine()}\n{options.network} at {options.pixels}², batch {options.batch} a rank")
    paths = [f"WIRE={wire} ALLREDUCE={reduction}" for wire, reduction in product(options.wire, options.allreduce)]
    for ranks in options.ranks:
        found = steps_over_link(options, ranks, paths)
        print("", described(options, ranks), *table(found, 2 * ranks * options.batch), sep="\n", flush=True)
    return 0


def end(main: Callable[[], int], name: str) -> NoReturn:
    """Run a benchmark and end: 1 with a message if a job fails or takes too long."""
    try:
        sys.exit(main())
    except subprocess.TimeoutExpired as expired:
        sys.exit(f"{name}: the job took more than {expired.timeout:.0f} s")
    except RuntimeError as error:
        sys.exit(f"{name}: the job failed\n{error}")


if __name__ == "__main__":
    end(main, "benchmarks/link.py")
