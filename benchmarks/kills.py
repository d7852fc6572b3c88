"""Runs that are killed at random moments, resumed, and compared with a run that was not.

    python benchmarks/kills.py [--kills 100] [--seed N] [CASE ...]

A kill is SIGKILL, SIGTERM or SIGSTOP to one rank, SIGTERM or SIGHUP to mpirun, or SIGKILL to all processes at once, at
a moment drawn between the start and the end. A run is killed one to three times. It must end within seconds; resumed,
it must end with the same weights, bit for bit, and the same counts, verify, and leave no process. A later start must
leave no file of theirs in /dev/shm. It prints a line of each kill, and exits with 1 if a run does not.
"""

import json
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import cycle
from pathlib import Path
from typing import Any

from marked_jobs import RANKS, ROOT, Failed, Run, asked

from hpcai.machine.node_resources import AGE

WATCHDOG = 5
ENDS = 10.0  # seconds within which a job must end, after the watchdog has waited
HUNG = 300.0
MOST_KILLS = 3  # of one run
INPUT = """\
A table, and a training that is killed
Small
0.05            CHECKPOINT
{watchdog}               WATCHDOG
0               TELEMETRY
[kernels]
16              SHAPES
[{section}]
{keys}
"""
# Most of the time is validation, on 2,000 images.
IMAGES = "DATASET=fashion RESOLUTION=14 SAMPLES=320 BATCH=8 EPOCHS=4 EVALUATE=2"
CASES = {
    "models": ("ensemble", f"{IMAGES} GROUPS=2 DEGREE=1"),
    "group": ("ensemble", f"{IMAGES} GROUPS=1 DEGREE=2 WIRE=int8"),
    "halffp16": ("ensemble", f"{IMAGES} GROUPS=1 DEGREE=2 PRECISION=halffp16 SAMPLER=poisson"),
    "custom": ("ensemble", f"{IMAGES} GROUPS=2 DEGREE=1 KERNELS=custom OPTIMISER=adam"),
    "tensor": ("ensemble", f"{IMAGES} GROUPS=1 DEGREE=2 PARALLEL=tensor"),
    "pipeline": ("ensemble", f"{IMAGES} GROUPS=1 DEGREE=2 PARALLEL=pipeline"),
    "decoder": (
        "language",
        "DATASET=generated NETWORK=decoder2x64 RESOLUTION=16 SAMPLES=320 BATCH=8 EPOCHS=4 EVALUATE=2"
        " GROUPS=1 DEGREE=2 PARALLEL=pipeline CLIP=0.1",
    ),
    "weather": ("weather", "DATASET=generated SAMPLES=48 BATCH=4 EPOCHS=3 RESOLUTION=48 GROUPS=2 DEGREE=1"),
}
KINDS = ("SIGKILL rank", "SIGTERM rank", "SIGSTOP rank", "SIGTERM mpirun", "SIGHUP mpirun", "SIGKILL all")
SAME = ("curve", "ensemble", "work", "members", "models")
# Times, and what is drawn anew of predictions.
TIMES = {"seconds", "reached_seconds_sum", "reached_seconds_max", "entropy", "sha256", "voted"}

MAPPED: set[str] = set()  # segments of all jobs

Json = Any


def untimed(value: Json) -> Json:
    """The value without its times."""
    if isinstance(value, dict):
        return {key: untimed(item) for key, item in value.items() if key not in TIMES}
    return [untimed(item) for item in value] if isinstance(value, list) else value


@dataclass
class Case:
    """A case in a folder of its own; `whole` is its result without a kill."""

    name: str
    folder: Path

    def prepared(self, name: str) -> Path:
        section, keys = CASES[self.name]
        lines = "\n".join(f"{value} {key}" for key, value in (setting.split("=") for setting in keys.split()))
        folder = self.folder / name
        folder.mkdir(parents=True)
        (folder / "input.dat").write_text(INPUT.format(section=section, keys=lines, watchdog=WATCHDOG))
        return folder

    @cached_property
    def whole(self) -> tuple[Json, float]:
        """The compared part of the result, and the seconds of the job."""
        folder = self.prepared("whole")
        with Run(folder, ["input.dat"]) as run:
            run.ends(HUNG, allowed=(0,))
            return compared(folder), time.monotonic() - run.begun


def compared(folder: Path) -> Json:
    """What two runs of the same input have in common."""
    (path,) = folder.glob("results/*/result.json")
    (test,) = json.loads(path.read_text())["tests"]
    raw = test["raw"]
    return {"weights": raw["replay"]["weights"], **{name: untimed(raw[name]) for name in SAME}}


def killed_run(case: Case, name: str, draw: random.Random, most: int) -> Iterator[str]:
    """Kill a run up to three times and resume it; a line of each kill, the last one also of the outcome."""
    expected, seconds = case.whole
    folder, lines = case.prepared(name), []
    for _ in range(min(most, draw.randint(1, MOST_KILLS))):
        kind, number, share = draw.choice(KINDS), draw.randrange(RANKS), draw.random()
        which = f" {number}" if kind.endswith("rank") else ""
        kill = f"{case.name:8s} {kind + which:14s} at {100 * share:3.0f} %"
        with Run(folder, resuming(folder)) as run:
            time.sleep(share * seconds)
            MAPPED.update(run.segments())
            if not run.suffers(kind, number):
                break
            begun = time.monotonic()
            try:
                code = run.ends(ENDS + WATCHDOG * ("STOP" in kind))
            except Failed as error:
                raise Failed(f"{kill}: {error}") from None
            took = time.monotonic() - begun
        if code == 0:  # all was done when the signal came
            break
        lines.append(f"{kill}: exit {code:3d} after {took:4.1f} s")
    if arguments := resuming(folder):
        with Run(folder, arguments) as run:
            run.ends(HUNG, allowed=(0, 2) if finished(folder) else (0,))
    judge(folder, expected)
    yield from lines


def resuming(folder: Path) -> list[str]:
    """The arguments that go on with what is in a folder."""
    found = [*folder.glob("results/*/result.json")]
    return ["--resume", str(found[0].parent)] if found else ["input.dat"]


def finished(folder: Path) -> bool:
    return any(json.loads(path.read_text())["tests"] for path in folder.glob("results/*/result.json"))


def judge(folder: Path, expected: Json) -> None:
    """Compare the result, and verify it."""
    found = compared(folder)
    if differing := [name for name in expected if found[name] != expected[name]]:
        raise Failed(f"differs: {', '.join(differing)}")
    (result,) = folder.glob("results/*")
    if [*result.glob(".checkpoints")]:
        raise Failed("checkpoints left")
    command = [sys.executable, str(ROOT / "bench.py"), "--verify", str(result)]
    verified = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if verified.returncode:
        raise Failed(f"not verified: {verified.stdout.strip()[-300:]}")


def left_for_good(folder: Path) -> list[str]:
    """Segments that are there after a later start: it removes those that nobody uses, once they are old enough.

    They are left where the watcher is killed as well, or does not know them yet.
    """
    if left := [path for path in MAPPED if Path(path).exists()]:
        print(f"{len(left)} of {len(MAPPED)} segments in /dev/shm were left to a later start", flush=True)
        time.sleep(AGE + 1)
        (folder / "input.dat").write_text("Small\nTable\n[kernels]\n16 SHAPES\n")
        with Run(folder, ["input.dat"]) as run:
            run.ends(HUNG, allowed=(0,))
    return [path for path in left if Path(path).exists()]


def main() -> int:
    chosen = asked(__doc__ or "", 100, CASES)
    draw, kills, wrong, runs = random.Random(chosen.seed), 0, 0, 0
    with tempfile.TemporaryDirectory(prefix="kills-") as base:
        cases = cycle([Case(name, Path(base, name)) for name in chosen.cases or CASES])
        while kills < chosen.kills:
            case, runs = next(cases), runs + 1
            try:
                for line in killed_run(case, str(runs), draw, chosen.kills - kills):
                    kills += 1
                    print(f"{kills:4d} {line}; resumed: identical", flush=True)
            except Failed as error:
                kills, wrong = kills + 1, wrong + 1
                print(f"{kills:4d} {case.name}: FAILED: {error}", flush=True)
        if left := left_for_good(Path(base)):
            wrong += 1
            print(f"FAILED: left in /dev/shm: {', '.join(left)}", flush=True)
    print(f"seed {chosen.seed}: {kills - wrong} of {kills} kills in {runs} runs resumed with the identical result")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
