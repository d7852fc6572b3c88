"""Is the search worth its name? What it finds against random morphisms, and what inherited weights save.

    python benchmarks/search.py [--seeds 5] [--seconds 90] [--ranks 2] [strategies] [weights] [rate]

`strategies`: error of the best network after equal time, STRATEGY bayes and random in turn, each seed once.
`weights`: the trials of each of those searches are tried again with fresh weights (REPLAY file:); how many steps a
child takes to the accuracy that its parent ended with, with inherited weights and with fresh ones.
`rate`: FLOPS of the training steps within a search over FLOPS of the same trials when they are tried again, and nothing
has to be chosen; and the idle share.
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

from hpcai import networks, opcount  # noqa: E402, the checkout comes first
from hpcai.machine.inventory import processor, versions  # noqa: E402
from hpcai.networks.lineage import lineage  # noqa: E402
from hpcai.prediction import accuracy  # noqa: E402

Json = dict[str, Any]
PARTS = ("strategies", "weights", "rate")
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


def run(folder: Path, ranks: int, settings: Sequence[str]) -> Json:
    """The test of one search; its history stays in the folder."""
    (folder / "search.dat").write_text(PROBLEM, encoding="utf-8")
    beside = Path(sys.executable).with_name("mpirun")
    launcher = str(beside) if beside.exists() else str(which("mpirun"))
    command = [launcher, "-np", str(ranks), sys.executable, str(ROOT / "bench.py"), "search.dat", "--set", *settings]
    subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    newest = max(folder.glob("results/*/result.json"), key=lambda path: path.stat().st_mtime)
    (test,) = json.loads(newest.read_text("utf-8"))["tests"]
    return {**test, "history": str(newest.parent / "search-1" / "history.jsonl")}


def spread(values: Sequence[float]) -> str:
    """Least, median and most."""
    return f"{min(values):8.4f} {statistics.median(values):8.4f} {max(values):8.4f}"


def strategies(folder: Path, options: argparse.Namespace) -> list[Json]:
    """The searches by the Gaussian process, and a line for each strategy."""
    found: dict[str, list[Json]] = {"bayes": [], "random": []}
    for seed in range(1, options.seeds + 1):
        for strategy, tests in found.items():
            settings = [f"SEED={seed}", f"STRATEGY={strategy}", f"DURATION={options.seconds}"]
            tests.append(run(folder, options.ranks, settings))
            print(f"  seed {seed}, {strategy}: error {1 - tests[-1]['scores']['quality']:.4f}", flush=True)
    print(f"{'error of the best network after equal time':<44} {'min':>8} {'median':>8} {'max':>8}")
    for strategy, tests in found.items():
        print(f"  {strategy:<42} {spread([1 - test['scores']['quality'] for test in tests])}")
    return found["bayes"]


def steps_to(trial: Json, wanted: float) -> int | None:
    """Steps of a trial until it was as accurate as that; None if it never was."""
    steps = 0
    for entry in trial["curve"]:
        steps += -(-entry["samples"] // trial["hyperparameters"]["batch"])
        if entry["correct"] is not None and entry["correct"] >= wanted * entry["counted"]:
            return steps
    return None


def pairs(inherited: Json, fresh: Json) -> Iterator[tuple[int | None, int | None]]:
    """Of each trial with a parent, the steps to the parent's accuracy: with its weights, and without."""
    first = {trial["id"]: trial for trial in inherited["raw"]["trials"]}
    for trial in fresh["raw"]["trials"]:
        twin = first[trial["id"]]
        if twin["parent"] is not None and twin["end"] == trial["end"] == "planned":
            wanted = accuracy(first[twin["parent"]])
            yield steps_to(twin, wanted), steps_to(trial, wanted)


def weights(folder: Path, searches: Sequence[Json], options: argparse.Namespace) -> None:
    """A line for each search: how often a child reached its parent's accuracy, and after how many steps."""
    print("steps to the parent's accuracy (children that reached it), inherited | fresh weights: min, median, max")
    for test in searches:
        again = [f"SEED={test['settings']['SEED']}", "INITIAL=fresh", f"REPLAY=file:{test['history']}", "DURATION=0"]
        found = [*pairs(test, run(folder, options.ranks, again))]
        sides = [[steps for steps in side if steps is not None] for side in zip(*found, strict=True)]
        told = " | ".join(f"{len(side)} of {len(found)}: {spread(side) if side else 'none'}" for side in sides)
        print(f"  seed {test['settings']['SEED']}: {told}", flush=True)


def model_rate(test: Json) -> float:
    """FLOPS by rule `model` of the seconds in which a search's groups trained, of all groups."""
    raw = test["raw"]
    initial = networks.for_data(test["settings"], raw["dataset"]["shape"], raw["dataset"]["classes"])
    graphs = lineage(initial, raw["trials"])
    credited = sum(
        opcount.count(graphs[trial["id"]], "model").total * sum(entry["samples"] for entry in trial["curve"])
        for trial in raw["trials"]
    )
    return float(credited / sum(trial["training_seconds"] for trial in raw["trials"]))


def rate(folder: Path, options: argparse.Namespace) -> None:
    """How much slower steps are while a search goes on around them, and what share of the time nobody trains."""
    ratios, idle = [], []
    for seed in range(1, options.seeds + 1):
        search = run(folder, options.ranks, [f"SEED={seed}", f"DURATION={options.seconds}"])
        again = run(folder, options.ranks, [f"SEED={seed}", f"REPLAY=file:{search['history']}", "DURATION=0"])
        ratios.append(model_rate(search) / model_rate(again))
        idle.append(search["scores"]["idle_share"])
        print(f"  seed {seed}: rate of the search / of the same trials without choosing {ratios[-1]:.4f}", flush=True)
    print(f"{'':<44} {'min':>8} {'median':>8} {'max':>8}")
    print(f"  {'training rate within the search, ratio':<42} {spread(ratios)}")
    print(f"  {'idle share':<42} {spread(idle)}")


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
        if "strategies" in options.what or "weights" in options.what:
            searches = strategies(folder, options)
            if "weights" in options.what:
                weights(folder, searches, options)
        if "rate" in options.what:
            rate(folder, options)


if __name__ == "__main__":
    main()
