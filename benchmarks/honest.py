"""Honest runs of all workloads, precisions and modes, on a busy machine and stopped in between: none may be FAILED.

    python benchmarks/honest.py [--runs 50] [--first 1]

Every second run has two busy neighbours, and in every third one all ranks are stopped for two to four seconds by
SIGSTOP, at a moment drawn at random. It prints a line of each run, and exits with 1 if one is FAILED, does not end, or
does not verify.
"""

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import cycle, islice
from pathlib import Path
from shutil import which

ROOT = Path(__file__).resolve().parent.parent
MOST_SECONDS = 1800
IMAGES = ["DATASET=fashion", "SAMPLES=200", "BATCH=16", "EPOCHS=2"]
ENSEMBLE = ["[ensemble]", *IMAGES]
LARGE = ["[ensemble]", "DATASET=generated", "CLASSES=4", "SAMPLES=32", "BATCH=8", "EPOCHS=2", "NETWORK=resnet50"]
WEATHER = ["[weather]", "DATASET=generated", "RESOLUTION=48", "SAMPLES=32", "BATCH=4", "EPOCHS=2"]
SEARCH = ["[nas]", "DATASET=fashion", "SAMPLES=200", "BATCH=16", "EPOCHS=2", "DURATION=8"]
MODELS, GROUP = ["GROUPS=2", "DEGREE=1"], ["GROUPS=1", "DEGREE=2"]
# Ranks, then the section and its KEYs.
CASES: tuple[tuple[int, list[str]], ...] = (
    *((2, [*ENSEMBLE, *GROUP, f"PRECISION={name}"]) for name in ("fp32", "bf16", "fp16", "pure16", "halffp16", "int8")),
    *((2, [*ENSEMBLE, *MODELS, f"OPTIMISER={name}"]) for name in ("adam", "adamw", "adagrad", "lars", "lamb")),
    *((2, [*ENSEMBLE, *GROUP, f"KERNELS={name}"]) for name in ("custom", "auto")),
    *((2, [*ENSEMBLE, *GROUP, f"WIRE={name}"]) for name in ("fp16", "bf16", "int8")),
    *((2, [*ENSEMBLE, *GROUP, f"PARALLEL={name}"]) for name in ("tensor", "pipeline")),
    (4, [*ENSEMBLE, "GROUPS=1", "DEGREE=4", "PARALLEL=mixed", "SPLIT=2x2x1"]),
    (3, [*ENSEMBLE, "GROUPS=1", "DEGREE=3", "PARALLEL=pipeline"]),
    (2, [*ENSEMBLE, *MODELS, "SAMPLER=poisson", "SCHEDULE=polynomial", "MOMENTUM=0"]),
    (2, [*ENSEMBLE, *GROUP, "COMPILE=torch"]),
    (1, [*ENSEMBLE, "GROUPS=1", "DEGREE=1", "NETWORK=resnet20", "PRECISION=bf16", "KERNELS=custom"]),
    (4, [*ENSEMBLE, "GROUPS=2", "DEGREE=2", "ALLREDUCE=torus", "MAPPING=column"]),
    *((2, [*LARGE, *grid, f"RESOLUTION={side}"]) for grid in (MODELS, GROUP) for side in (32, 64)),
    *((2, [*WEATHER, *grid]) for grid in (MODELS, GROUP)),
    (2, [*WEATHER, *GROUP, "PRECISION=bf16", "KERNELS=custom"]),
    *((2, [*SEARCH, *grid]) for grid in (MODELS, GROUP)),
    (2, [*SEARCH, *MODELS, "PRECISION=bf16", "STRATEGY=random"]),
    (2, ["[kernels]", "SHAPES=resnet8", "RESOLUTION=28", "BATCH=8"]),
    (1, ["[kernels]", "SHAPES=256", "PRECISION=bf16"]),
    (2, ["[comm]", "SIZES=1K", *GROUP]),
)


@contextmanager
def busy(neighbours: int) -> Iterator[None]:
    """Processes that compute all the time."""
    running = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(neighbours)]
    try:
        yield
    finally:
        for process in running:
            process.kill()
            process.wait()


def input_of(settings: list[str]) -> str:
    """An input file of one section."""
    section, *keys = settings
    lines = (f"{value} {key}" for key, _, value in (setting.partition("=") for setting in keys))
    return "\n".join(["Honest run", "No fault is planted", section, *lines, ""])


def stopped(job: "subprocess.Popen[str]", draw: random.Random, at: list[float]) -> None:
    """Stop all processes of a job for some seconds, once it has run for a while, and note when."""
    moment = draw.uniform(2, 10)
    time.sleep(moment)
    if job.poll() is None:
        os.killpg(job.pid, signal.SIGSTOP)
        at.append(moment)
        time.sleep(draw.uniform(2, 4))
        os.killpg(job.pid, signal.SIGCONT)


def run(ranks: int, settings: list[str], stops: bool, draw: random.Random, at: list[float]) -> str:
    """What went wrong in one run; empty if nothing. at: is given the seconds after which it was stopped."""
    beside = Path(sys.executable).with_name("mpirun")
    launcher = str(beside) if beside.exists() else str(which("mpirun"))
    bench = [sys.executable, str(ROOT / "bench.py")]
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "input.dat").write_text(input_of(settings), encoding="utf-8")
        command = [launcher, "-np", str(ranks), *bench, "input.dat"]
        job = subprocess.Popen(
            command, cwd=folder, start_new_session=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        if stops:
            threading.Thread(target=stopped, args=(job, draw, at), daemon=True).start()
        try:
            out, err = job.communicate(timeout=MOST_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(job.pid, signal.SIGKILL)
            return f"did not end in {MOST_SECONDS} s"
        failed = [line.strip() for line in out.splitlines() if line.endswith("FAILED")]
        if job.returncode:
            return f"exit {job.returncode}: {'; '.join(failed) or err.strip()[-300:]}"
        verify = [*bench, "--verify", *map(str, Path(folder).glob("results/*"))]
        verified = subprocess.run(verify, cwd=folder, capture_output=True, text=True, check=False)
        return "" if verified.returncode == 0 else verified.stdout.strip()[-300:]


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("--runs", type=int, default=50)
    options.add_argument("--first", type=int, default=1, help="number of the first run")
    chosen = options.parse_args()
    draw, wrong = random.Random(), 0
    numbered = enumerate(islice(cycle(CASES), chosen.first - 1, chosen.first - 1 + chosen.runs), chosen.first)
    for number, (ranks, settings) in numbered:
        neighbours, stops = 2 * (number % 2), number % 3 == 0
        begin, at = time.monotonic(), list[float]()
        with busy(neighbours):
            found = run(ranks, settings, stops, draw, at)
        wrong += bool(found)
        held = "".join(f", stopped at {moment:.1f} s" for moment in at)
        where = f"{neighbours} neighbours{held}; {time.monotonic() - begin:.0f} s"
        print(f"{number:3d} {found or 'PASSED'}: {ranks} ranks, {' '.join(settings)}; {where}", flush=True)
    print(f"{chosen.runs - wrong} of {chosen.runs} honest runs PASSED and verified")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
