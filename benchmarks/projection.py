"""The projection from 1 to 4 ranks beside what 6 and 8 ranks measure, on hosts joined by shaped links.

    python benchmarks/projection.py [--rate 100mbit] [--share 0.2] [--measured 1 2 3 4] [--projected 6 8]
                                    [--input benchmarks/projection.dat] [--keep FOLDER]

Each host is a network namespace with one rank, held to a share of a processor by a control group, so that the machine
has the same for each. The model sees only the results of --measured; then the jobs of --projected are run and compared.
Exit code 1 if an efficiency is off by more than five points. Needed: root; without, it says so and ends.
"""

import argparse
import os
import sys
import tempfile
from pathlib import Path

import slowed
from hosts import Hosts, obstacle
from link import end, machine

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
MOST_POINTS = 5.0


def run(options: argparse.Namespace, ranks: int, folder: Path) -> Path:
    """The result of one model on so many hosts; RuntimeError if the job fails."""
    own = folder / f"{ranks}-ranks"
    own.mkdir(parents=True, exist_ok=True)
    found = sorted(own.glob("results/*/result.json"))
    if found:
        return found[0]
    program = [sys.executable, "-P", str(ROOT / "bench.py"), str(options.input.absolute())]
    changes = ["--set", "GROUPS=1", f"DEGREE={ranks}"]
    with Hosts(ranks, options.rate) as hosts, slowed.Slowed(hosts.names, options.share) as groups:
        command = groups.command([*program, *changes])
        finished = hosts.run(command, 1, {"PYTHONPATH": str(ROOT)}, cwd=own, timeout=options.limit)
    (own / "stderr").write_text(finished.stderr)
    if finished.returncode:
        raise RuntimeError(f"{ranks} ranks: {finished.stdout[-2000:]}\n{finished.stderr[-2000:]}")
    return next(own.glob("results/*/result.json"))


def compared(known: list[Path], seen: list[Path], counts: list[int]) -> float:
    """Print projections beside measurements; the largest difference of efficiencies, in points."""
    from hpcai.projection import text
    from hpcai.projection.errors import leave_one_out, reference
    from hpcai.projection.fit import fit
    from hpcai.projection.measured import families

    (measured,), (others,) = families(known), families(seen)
    used, first = fit(measured), reference(measured)
    projected = [used.project(1, count) for count in counts]
    print(text.marked(text.block(measured, used, leave_one_out(measured), projected)))
    largest, rate = 0.0, first.flops / first.ranks
    for each, other in zip(projected, others.observations, strict=True):
        ours, theirs = each.rate / rate, other.flops / other.ranks / rate
        largest = max(largest, 100 * abs(ours - theirs))
        print(
            f"{each.ranks} ranks: efficiency projected {ours:.3f}, measured {theirs:.3f}, difference "
            f"{100 * (ours - theirs):+.1f} points; FLOPS {100 * (each.flops / other.flops - 1):+.1f} %"
        )
    return largest


def parsed() -> argparse.Namespace:
    """The options of the command line."""
    parser = argparse.ArgumentParser(description="A projection beside measurements, over shaped links.")
    parser.add_argument("--rate", default="100mbit", help="of the links, as tc writes it")
    parser.add_argument("--share", type=float, default=0.2, help="of a processor for a rank")
    parser.add_argument("--measured", type=int, nargs="+", default=[1, 2, 3, 4])
    parser.add_argument("--projected", type=int, nargs="+", default=[6, 8])
    parser.add_argument("--input", type=Path, default=Path(__file__).with_name("projection.dat"))
    parser.add_argument("--keep", type=Path, help="folder of the results; jobs that are in it are not run again")
    parser.add_argument("--limit", type=float, default=1200, help="seconds of a job")
    return parser.parse_args()


def main() -> int:
    """Measure, project, measure again, compare; the exit code."""
    options = parsed()
    if reason := obstacle() or slowed.obstacle():
        print(f"benchmarks/projection.py: not run: {reason}")
        return 0
    print(f"{machine()}\n{os.cpu_count()} CPUs, a rank has {options.share} of one; links {options.rate}")
    with tempfile.TemporaryDirectory() as scratch:
        folder = (options.keep or Path(scratch)).absolute()
        known = [run(options, ranks, folder) for ranks in options.measured]
        seen = [run(options, ranks, folder) for ranks in options.projected]
        return int(compared(known, seen, options.projected) > MOST_POINTS)


if __name__ == "__main__":
    end(main, "benchmarks/projection.py")
