"""The memory of every rank in long runs: many steps, many trials of a search, many tests of a sweep.

    python benchmarks/long_runs.py [--steps 10000] [--trials 1000] [--tests 1000] [steps trials tests]

It reads the resident memory of each rank while a run lasts, and prints it at parts of the time, in MiB, of the rank
whose memory grows most from a fifth of the time to the end; that growth; and the size of the result's files.
"""

import argparse
import json
import statistics
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

from marked_jobs import RANKS, Run

PARTS = (0.2, 0.4, 0.6, 0.8, 1.0)
PAUSE = 0.5  # seconds between readings
NEAR = 0.03  # readings within this share of the time around a part; their median is printed
COMMON = "0 TELEMETRY\n0 CHECKPOINT\n"
IMAGES = "fashion DATASET\n8 RESOLUTION\n1 GROUPS\n2 DEGREE\n0 WARMUP\n"
SMALL = "20 DEPTH\n500000 PARAMETERS\n0 DURATION\n"  # networks that train and validate in seconds
KINDS = ("steps", "trials", "tests")


def inputs(chosen: argparse.Namespace) -> dict[str, str]:
    """An input file of each kind: five steps an epoch; trials of one epoch; tests of three KEYs."""
    few = " ".join(f"{0.01 + 0.001 * number:.3f}" for number in range(round(chosen.tests ** (1 / 3))))
    swept = "".join(f"{few} {name}\n" for name in ("LEARNRATE", "MOMENTUM", "DECAY"))
    epochs = chosen.steps // 5
    return {
        "steps": f"{COMMON}[ensemble]\n{IMAGES}160 SAMPLES\n16 BATCH\n{epochs} EPOCHS\n{epochs // 10} EVALUATE\n",
        "trials": f"{COMMON}[nas]\n{IMAGES}128 SAMPLES\n64 BATCH\n1 EPOCHS\n{SMALL}{chosen.trials} TRIALS\n",
        "tests": f"{COMMON}[ensemble]\n{IMAGES}32 SAMPLES\n16 BATCH\n1 EPOCHS\n{swept}",
    }


def resident(pid: int) -> float:
    """MiB."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    return 0.0


def watched(run: Run) -> list[list[tuple[float, float]]]:
    """Readings of each rank until the end: seconds since the first one, and MiB."""
    found: list[list[tuple[float, float]]] = [[] for _ in range(RANKS)]
    while run.process.poll() is None:
        for number, readings in enumerate(found):
            with suppress(OSError):
                if pid := run.rank(number):
                    readings.append((time.monotonic() - run.begun, resident(pid)))
        time.sleep(PAUSE)
    return found


def at_parts(readings: list[tuple[float, float]]) -> list[float]:
    """The memory at parts of the time."""
    end = readings[-1][0]
    near = ([mib for t, mib in readings if abs(t / end - part) <= NEAR and mib] for part in PARTS)
    return [statistics.median(each) if each else float("nan") for each in near]


def measure(kind: str, text: str) -> bool:
    """Print the memory of one run; whether it ended well."""
    with tempfile.TemporaryDirectory(prefix="long-") as folder:
        Path(folder, "input.dat").write_text(f"A long run\nOf many {kind}\n{text}")
        with Run(Path(folder), ["input.dat"]) as run:
            readings = [each for each in watched(run) if each]
        code, seconds = run.process.returncode, time.monotonic() - run.begun
        if not readings or not [*Path(folder).glob("results/*")]:
            print(f"{kind}: exit {code}: {run.errors.read_text().strip()[-300:]}")
            return False
        most = max((at_parts(each) for each in readings), key=lambda parts: parts[-1] - parts[0])
        files = sum(path.stat().st_size for path in Path(folder, "results").rglob("*") if path.is_file())
        done, ended_by = what_was_done(kind, Path(folder))
        print(f"{kind:7s}{done:7d}{seconds:8.0f} s  " + "".join(f"{mib:9.1f}" for mib in most), end="")
        print(f"  {most[-1] - most[0]:+7.1f} MiB {files / 2**20:9.1f} MiB  exit {code}{ended_by}", flush=True)
        return code == 0 and not ended_by


def what_was_done(kind: str, folder: Path) -> tuple[int, str]:
    """Steps, trials or tests by the result; why there are fewer trials than were asked for, else empty."""
    path = next(folder.glob("results/*/result.json"))
    tests = json.loads(path.read_text())["tests"]
    if kind == "tests":
        return len(tests), ""
    (raw,) = (test["raw"] for test in tests)
    if kind == "steps":
        return int(raw["work"]["steps"]), ""
    return int(raw["granted"]), "" if raw["ended_by"] == "trials" else f", ended by {raw['ended_by']}"


def main() -> int:
    options = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    for name, number in (("steps", 10_000), ("trials", 1_000), ("tests", 1_000)):
        options.add_argument(f"--{name}", type=int, default=number)
    options.add_argument("kinds", nargs="*", metavar="KIND", help=f"of {', '.join(KINDS)}; all by default")
    chosen = options.parse_args()
    heads = "".join(f"{part:9.0%}" for part in PARTS)
    print(f"{'':7s}{'number':>7s}{'time':>8s}    {heads}     growth      files", flush=True)
    ended = [measure(kind, inputs(chosen)[kind]) for kind in chosen.kinds or KINDS]
    return int(not all(ended))


if __name__ == "__main__":
    sys.exit(main())
