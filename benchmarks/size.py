"""Memory, output and start-up of one node by the number of its ranks, in a run of all workloads.

    python benchmarks/size.py [--ranks 2,4,8,16,32,64] [--sections health,comm,kernels,ensemble,weather,nas]

It runs every workload once, as small as it can be, on each number of ranks, and prints seconds until the report
begins, the highest resident memory of rank 0 and of the other ranks (median), bytes of the report and of result.json,
and the slopes of straight lines through them, each with its bound. The exit code is 1 if a run fails or a bound is
broken. Of 2 ranks there is no slope: there [comm] has fewer tables. A rank has 0.2 to 0.4 GiB of its own.
"""

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from marked_jobs import Run, marked, mpirun

RANKS = "2,4,8,16,32,64"
PAUSE = 0.2  # seconds between readings
KIB = 1024
FIRST = 4  # ranks of the first point of the lines
HEAD = "All workloads, each as small as it can be\nMade by benchmarks/size.py\n0 CHECKPOINT\n0 TELEMETRY\n"
PAIRS = "{groups} GROUPS\n2 DEGREE\n"
IMAGES = f"fashion DATASET\n8 RESOLUTION\n64 SAMPLES\n{PAIRS}1 EPOCHS\n"
SECTIONS = {
    "health": "64 SIDE\n",
    "comm": f"{PAIRS}1K SIZES\n",
    "kernels": "64 SHAPES\n",
    "ensemble": f"{IMAGES}4 BATCH\n0 WARMUP\n",
    "weather": f"generated DATASET\n48 RESOLUTION\n8 SAMPLES\n{PAIRS}2 BATCH\n1 EPOCHS\n0 WARMUP\n",
    "nas": f"{IMAGES}16 BATCH\n1 ROUNDS\n",
}
SEARCH = "nas"


class Bound(NamedTuple):
    """A quantity of a run, the most bytes by which it may grow with each rank, and what grows."""

    name: str
    most: float
    meaning: str


class Measured(NamedTuple):
    """One run. Bytes, by the names of BOUNDS."""

    ranks: int
    exit: int
    start: float
    seconds: float
    nbytes: Mapping[str, float]


RANK_0, OTHERS, MORE = "rank 0", "other ranks", "rank 0 - others"
REPORT, RESULT, LIST, SEARCHED, REST = "report", "result.json", "its ranks", "its search", "its rest"
BOUNDS = (
    Bound(RANK_0, 2**20, "segments of MPI that all ranks of a node share, and what rank 0 alone holds"),
    Bound(OTHERS, 2**20, "segments of MPI that all ranks of a node share"),
    Bound(MORE, 128 * KIB, "what rank 0 alone holds: sockets of the watcher, trials of the search, JSON of the result"),
    Bound(REPORT, 300, "a line of each rank up to 64 ranks, none beyond; trials of the search"),
    Bound(LIST, 300, "an entry of each rank up to 64 ranks, none beyond"),
    Bound(SEARCHED, 4000, "a trial of each two ranks: each group of the search runs one"),
    Bound(REST, 16, "all else: digits of larger numbers"),
)
COLUMNS = (RANK_0, OTHERS, MORE, REPORT, RESULT, LIST, SEARCHED, REST)
SEEN = {RANK_0: KIB * KIB, OTHERS: KIB * KIB, MORE: KIB * KIB}  # bytes of the unit that is printed


def main() -> int:
    """The exit code."""
    options = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    options.add_argument("--ranks", default=RANKS, help=f"numbers of ranks, even ones; {RANKS} by default")
    options.add_argument("--sections", default=",".join(SECTIONS), help="of the input; all by default")
    chosen = options.parse_args()
    text = HEAD + "".join(f"[{name}]\n{SECTIONS[name]}" for name in chosen.sections.split(","))
    print(f"[{chosen.sections}]; memory in MiB, files in bytes")
    print("ranks  start/s  whole/s " + "".join(f"{name:>16}" for name in COLUMNS))
    found = [_printed(measured(int(ranks), text)) for ranks in chosen.ranks.split(",")]
    failed, fitted = [each.ranks for each in found if each.exit], [each for each in found if each.ranks >= FIRST]
    if failed or len(fitted) < 2:
        print(f"no slopes: runs on {failed} ranks failed" if failed else "no slopes of one run")
        return int(bool(failed))
    print(f"{'start':>16}: {slope_of(fitted, [each.start for each in fitted]):.2f} s a rank")
    return int(sum(_broken(bound, fitted) for bound in BOUNDS) > 0)


def _printed(run: Measured) -> Measured:
    values = "".join(f"{run.nbytes.get(name, 0) / SEEN.get(name, 1):16,.{name in SEEN:d}f}" for name in COLUMNS)
    print(f"{run.ranks:5d} {run.start:8.1f} {run.seconds:8.1f} {values}", flush=True)
    return run


def _broken(bound: Bound, found: Sequence[Measured]) -> bool:
    """Whether the slope exceeds its bound, which is printed."""
    slope = slope_of(found, [each.nbytes[bound.name] for each in found])
    broken = slope > bound.most
    print(
        f"{bound.name:>16}: {slope:11,.1f} bytes a rank, at most {bound.most:,.0f}: {'BROKEN' if broken else 'holds'}"
        f" ({bound.meaning})"
    )
    return broken


def slope_of(found: Sequence[Measured], values: Sequence[float]) -> float:
    """What a rank adds: the slope of the straight line with the least squares of differences."""
    return float(np.polyfit([each.ranks for each in found], values, 1)[0])


def measured(ranks: int, text: str) -> Measured:
    """A run of an input on so many ranks, an even number."""
    with tempfile.TemporaryDirectory(prefix="size-") as name:
        folder = Path(name)
        (folder / "input.dat").write_text(text.format(groups=ranks // 2))
        with Run(folder, ["input.dat"], [str(mpirun()), "-np", str(ranks), sys.executable]) as run:
            start, peaks = _watched(run, folder / "stdout")
        code, seconds = run.process.returncode, time.monotonic() - run.begun
        if code:
            print(f"{ranks} ranks: exit {code}: {run.errors.read_text().strip()[-1000:]}", file=sys.stderr)
            return Measured(ranks, code, start, seconds, {})
        return Measured(ranks, code, start, seconds, {**memory_of(peaks), **_written(folder)})


def _watched(run: Run, output: Path) -> tuple[float, dict[int, float]]:
    """Seconds until the report begins, and the highest resident memory of each rank, in bytes, until the end."""
    start, peaks = 0.0, dict[int, float]()
    while run.process.poll() is None:
        start = start or (time.monotonic() - run.begun if output.stat().st_size else 0.0)
        for pid, variables in marked(run.mark).items():
            with suppress(OSError):
                if (rank := variables.get("PMI_RANK")) and _is_rank(pid):
                    peaks[int(rank)] = max(peaks.get(int(rank), 0.0), peak_of(pid))
        time.sleep(PAUSE)
    return start, peaks


def _is_rank(pid: int) -> bool:
    """Whether a process of the job is a rank, and none that a rank has started."""
    return b"bench.py" in Path(f"/proc/{pid}/cmdline").read_bytes()


def peak_of(pid: int) -> float:
    """Highest resident memory of a process since the program reset it at the beginning of a test, in bytes."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * KIB
    return 0.0


def memory_of(peaks: Mapping[int, float]) -> dict[str, float]:
    """Memory of rank 0, the median of the others, and the difference, in bytes."""
    others = statistics.median(peak for rank, peak in peaks.items() if rank)
    return {RANK_0: peaks[0], OTHERS: others, MORE: peaks[0] - others}


def _written(folder: Path) -> dict[str, float]:
    """Bytes of the report and of result.json, and of its parts."""
    (file,) = folder.glob("results/*/result.json")
    text = file.read_text()
    result: dict[str, Any] = json.loads(text)
    lists = len(json.dumps(result.pop("ranks")))
    searches = [test for test in result["tests"] if test["workload"] == SEARCH]
    result["tests"] = [test for test in result["tests"] if test not in searches]
    return {
        REPORT: (folder / "stdout").stat().st_size,
        RESULT: len(text.encode()),
        LIST: lists,
        SEARCHED: len(json.dumps(searches)),
        REST: len(json.dumps(result)),
    }


if __name__ == "__main__":
    sys.exit(main())
