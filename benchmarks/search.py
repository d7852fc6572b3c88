"""Is the search worth its name? What it finds against random morphisms, and what inherited weights save.

    python benchmarks/search.py [--seeds 5] [--seconds 90] [--ranks 2] [strategies] [weights] [rate] [memory]

`strategies`: error of the best network after equal time, STRATEGY bayes and random in turn, each seed once; short
trials, so that there are many.
`weights`: the trials of searches half as long are tried again with fresh weights (REPLAY file:); how many steps a child
takes to the accuracy that its parent ended with, with inherited weights and with fresh ones; trials with many
validations.
`rate`: seconds of the same networks' training steps without a search (plain.py) over their seconds within one; and the
idle share.
`memory`: what a rank needs where 2, 16 and 64 groups search.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from shutil import which
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from hpcai.machine.inventory import processor, versions  # noqa: E402
from hpcai.record.trial import trials_of  # noqa: E402

Json = dict[str, Any]
PARTS = ("strategies", "weights", "rate", "memory")
GROUPS = (2, 16, 64)  # far more than there are processors
PROBLEM = """A search for the benchmark
of the search
search         OUTPUT

[nas]
fashion        DATASET
resnet8        NETWORK
2000           SAMPLES
32             BATCH
4              EPOCHS
1.0            LEARNRATE
5e-4           DECAY
1              DEGREE
0              GROUPS
"""


def launcher() -> str:
    """The mpirun of this environment, else that of the PATH."""
    beside = Path(sys.executable).with_name("mpirun")
    return str(beside) if beside.exists() else str(which("mpirun"))


def run(folder: Path, ranks: int, settings: Sequence[str], problem: str = PROBLEM) -> Json:
    """The test of one search; its history stays in the folder."""
    (folder / "search.dat").write_text(problem, encoding="utf-8")
    program = [sys.executable, str(ROOT / "bench.py"), "search.dat"]
    command = [launcher(), "-np", str(ranks), *program, *(["--set", *settings] if settings else [])]
    subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    newest = max(folder.glob("results/*/result.json"), key=lambda path: path.stat().st_mtime)
    (test,) = json.loads(newest.read_text("utf-8"))["tests"]
    return {**test, "history": str(newest.parent / "search-1" / "history.jsonl")}


def spread(values: Sequence[float]) -> str:
    """Least, median and most."""
    return f"{min(values):8.4f} {statistics.median(values):8.4f} {max(values):8.4f}"


def strategies(folder: Path, options: argparse.Namespace) -> None:
    """A line for each search, and one for each strategy."""
    found: dict[str, list[Json]] = {"bayes": [], "random": []}
    for seed in range(1, options.seeds + 1):
        for strategy, tests in found.items():
            settings = [f"SEED={seed}", f"STRATEGY={strategy}", f"DURATION={options.seconds}", "EPOCHS=1"]
            tests.append(run(folder, options.ranks, settings))
            print(f"  seed {seed}, {strategy}: error {1 - tests[-1]['scores']['quality']:.4f}", flush=True)
    print(f"{'error of the best network after equal time':<44} {'min':>8} {'median':>8} {'max':>8}")
    for strategy, tests in found.items():
        print(f"  {strategy:<42} {spread([1 - test['scores']['quality'] for test in tests])}")


def steps_to(trial: Json, wanted: float) -> float:
    """Steps of a trial until it was as accurate as that; infinite if it never was."""
    steps = 0
    for entry in trial["curve"]:
        steps += -(-entry["samples"] // trial["hyperparameters"]["batch"])
        if entry["correct"] is not None and entry["correct"] >= wanted * entry["counted"]:
            return steps
    return float("inf")


def pairs(inherited: Json, fresh: Json) -> Iterator[tuple[float, float]]:
    """Of each trial with a parent, the steps to the parent's accuracy: with its weights, and without."""
    first = {trial["id"]: trial for trial in inherited["raw"]["trials"]}
    for trial in fresh["raw"]["trials"]:
        twin = first[trial["id"]]
        if twin["parent"] is not None and twin["end"] == trial["end"] == "planned":
            (parent,) = trials_of([first[twin["parent"]]])
            wanted = parent.accuracy
            yield steps_to(twin, wanted), steps_to(trial, wanted)


def weights(folder: Path, options: argparse.Namespace) -> None:
    """A line for each search, and one for all: what inherited weights save of the way to the parent's accuracy."""
    print(f"{'steps to the accuracy of the parent':<18} {'':25} {'inherited':>28} {'fresh weights':>28}")
    print(f"{'':<18} {'children fewer same more':>25} {'reached min median max':>28} {'reached min median max':>28}")
    everything: list[tuple[float, float]] = []
    for seed in range(1, options.seeds + 1):
        settings = [f"SEED={seed}", "EPOCHS=8", "SAMPLES=1000"]
        test = run(folder, options.ranks, [*settings, f"DURATION={options.seconds / 2}"])
        again = [*settings, "INITIAL=fresh", f"REPLAY=file:{test['history']}", "DURATION=0"]
        found = [*pairs(test, run(folder, options.ranks, again))]
        everything += found
        print(compared(f"seed {seed}", found), flush=True)
    print(compared("all", everything))


def compared(name: str, found: Sequence[tuple[float, float]]) -> str:
    """Inherited against fresh weights; a child that never was so accurate counts with infinitely many steps."""
    signs = [(ours > theirs) - (ours < theirs) for ours, theirs in found]
    parts = [f"  {name:<16} {len(found):9} {signs.count(-1):5} {signs.count(0):4} {signs.count(1):4}"]
    for side in zip(*found, strict=True):
        reached = sum(steps < float("inf") for steps in side)
        parts.append(f"{reached:12} {min(side):4.0f} {statistics.median_low(side):5.0f} {max(side):4.0f}")
    return " ".join(parts)


def plain_seconds(test: Json, folder: Path, ranks: int) -> float:
    """Seconds that the training steps of a search take where nothing but training goes on, of all groups."""
    script = str(Path(__file__).with_name("plain.py"))
    command = [launcher(), "-np", str(ranks), sys.executable, script, test["history"], "search.dat"]
    told = subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout
    seconds = json.loads(told.splitlines()[-1])
    return float(sum(seconds[str(trial["id"])] * trial["steps"] for trial in test["raw"]["trials"] if trial["steps"]))


def rate(folder: Path, options: argparse.Namespace) -> None:
    """How much slower steps are while a search goes on around them, and what share of the time nobody trains."""
    ratios, idle = [], []
    for seed in range(1, options.seeds + 1):
        test = run(folder, options.ranks, [f"SEED={seed}", f"DURATION={options.seconds}"])
        own = sum(trial["training_seconds"] for trial in test["raw"]["trials"])
        ratios.append(plain_seconds(test, folder, options.ranks) / own)
        idle.append(test["scores"]["idle_share"])
        print(f"  seed {seed}: rate of steps in the search / of the same steps alone {ratios[-1]:.4f}", flush=True)
    print(f"{'':<44} {'min':>8} {'median':>8} {'max':>8}")
    print(f"  {'training rate within the search, ratio':<42} {spread(ratios)}")
    print(f"  {'idle share':<42} {spread(idle)}")


TINY = """A search of tiny networks
for memory
[nas]
generated      DATASET
8              RESOLUTION
4              CLASSES
48             SAMPLES
0              GROUPS
1              DEGREE
8              BATCH
1              EPOCHS
0              DURATION
2              ROUNDS
"""


def memory(folder: Path, options: argparse.Namespace) -> None:
    """Peak memory of the rank that used most, by the number of groups; rank 0 trains as all do, and answers them."""
    print("groups, trials, peak memory of the rank that used most in MiB")
    for groups in GROUPS:
        test = run(folder, groups, [], TINY)
        raw = test["raw"]
        print(f"  {groups:6} {len(raw['trials']):6} {raw['memory']['peak_bytes'] / 2**20:10.1f}", flush=True)


def main() -> None:
    """Print the machine, the versions, and the tables asked for."""
    parser = argparse.ArgumentParser(description="What a search finds, and what it costs.")
    parser.add_argument("what", nargs="*", metavar="|".join(PARTS))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=90.0)
    parser.add_argument("--ranks", type=int, default=2)
    options = parser.parse_args()
    options.what = options.what or [*PARTS]
    if unknown := {*options.what} - {*PARTS}:
        parser.error(f"unknown: {', '.join(sorted(unknown))}; allowed: {', '.join(PARTS)}")
    print(f"{processor()}, {len(os.sched_getaffinity(0))} CPUs, load {os.getloadavg()[0]:.1f}")
    print(", ".join(f"{name} {version}" for name, version in versions().items()), flush=True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if "strategies" in options.what:
            strategies(folder, options)
        if "weights" in options.what:
            weights(folder, options)
        if "rate" in options.what:
            rate(folder, options)
        if "memory" in options.what:
            memory(folder, options)


if __name__ == "__main__":
    main()
