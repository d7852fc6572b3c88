"""The raw measurements of a search, made up: two groups, nine trials with real morphisms, true to every claim."""

import json
from collections.abc import Callable, Sequence
from functools import cache
from math import ceil
from typing import Any

from small_run import INPUT, golden

from hpcai import networks, opcount
from hpcai import result as results
from hpcai.comm.grid_coordinates import described, grids_of, groups_of
from hpcai.data.order import Shard
from hpcai.formulas.sample_fingerprint import expected_fingerprint
from hpcai.inputfile import Case, Problem, parse
from hpcai.networks.lineage import lineage
from hpcai.record.trial import trials_of

Json = dict[str, Any]
Change = Callable[[Json], object]

SEARCH = """[nas]
fashion        DATASET
resnet8        NETWORK
200            SAMPLES
2              GROUPS
1              DEGREE
32             BATCH
4              EPOCHS
6.5            DURATION
0.5            TARGET
"""
WIDER = {"operation": "widen", "layer": "stage1_block1_conv1", "channels": 24}
DEEPER = {"operation": "deepen", "after": "stem_relu", "kernel": 3}
LARGER = {"operation": "kernel", "layer": "stage2_block1_conv2", "size": 5}
BRANCH = {"operation": "skip", "start": "stem_relu", "end": "stage2_block1_norm1"}
GROWN = {"operation": "kernel", "layer": "deepen1_conv", "size": 5}

LAST = {"operation": "kernel", "layer": "stage3_block1_conv1", "size": 5}

# worker, round, parent, morphisms, batch and kernel, right in each validation, end
PLANS: Sequence[tuple[int, int, int | None, list[Json], tuple[int, int], list[int], str]] = (
    (0, 1, None, [], (32, 3), [300], "planned"),
    (1, 1, None, [WIDER], (32, 3), [400], "planned"),
    (0, 2, 2, [DEEPER], (32, 3), [500, 700], "planned"),
    (1, 2, 1, [LARGER], (32, 3), [450], "diverged"),
    (0, 3, 3, [BRANCH, GROWN], (32, 3), [600, 800, 900], "planned"),
    (1, 3, 2, [WIDER | {"channels": 30}], (32, 3), [650, 850, 1000], "planned"),
    (0, 4, 5, [LARGER], (32, 3), [700, 900, 1100, 1200], "planned"),
    (1, 4, 6, [BRANCH], (32, 3), [800], "memory"),
    (0, 5, 7, [LAST], (16, 5), [900, 1300], "time"),
)
STEP, JUDGE, WARM, PAUSE = 0.04, 0.25, 0.05, 0.01  # seconds


@cache
def _made(text: str) -> str:
    problem = parse(f"{_headers()}\n{text}", name="input.dat")
    return json.dumps(result_of(problem, [raw_of(case) for case in problem.cases(2) if case.workload == "nas"]))


def _headers() -> str:
    return INPUT.read_text("utf-8").partition("[ensemble]")[0]


def searched(*settings: str, run: str = "") -> Json:
    """A result with a search, to be altered at will; lines of settings take the place of those of a KEY."""
    lines = SEARCH.splitlines()
    for setting in settings:
        lines = [line for line in lines if line.split()[-1] != setting.split()[-1]] + [setting]
    return dict(json.loads(_made("\n".join([run, *lines, ""]))))


def with_ensemble() -> Json:
    """The stored result with a search behind its tests, to be altered at will."""
    stored = golden()
    problem = parse(INPUT.read_text("utf-8") + "\n" + SEARCH, name="input.dat")
    (case,) = [case for case in problem.cases(2) if case.workload == "nas"]
    return result_of(problem, [*(test["raw"] for test in stored["tests"]), raw_of(case)])


def result_of(problem: Problem, raws: Sequence[Json]) -> Json:
    """A result of these raw measurements, one for each case, on the machine of the stored one."""
    cases = problem.cases(2)
    made = {**golden(), "input": problem.as_dict(), **{member: [] for member in results.EMPTY}}
    grids = grids_of(case.settings for case in cases)
    made["environment"] |= described(grids, 2)
    for rank in made["ranks"]:
        rank["groups"] = groups_of(rank["rank"], grids)
    for case, raw in zip(cases, raws, strict=False):
        results.enter(made, case, raw)
    return dict(json.loads(json.dumps(results.sealed(made, len(cases)))))


def raw_of(case: Case) -> Json:
    """What the workload would tell of a search by the plans above."""
    data = golden()["tests"][0]["raw"]["dataset"]
    trials, free = list[Json](), [0.0, 0.0]
    for plan in PLANS:
        trial = _trial(case, data, plan, free[plan[0]] + PAUSE)
        free[plan[0]] = trial["returned"]
        trials.append(trial)
    _operations(case, data, trials)
    return _of_trials(case, data, trials, max(free))


def _trial(case: Case, data: Json, plan: Any, given: float) -> Json:
    worker, number, parent, morphisms, (batch, kernel), right, end = plan
    shard = Shard(data["training_samples"], 0, case["DEGREE"], batch)
    clock, curve = given + PAUSE + WARM, list[Json]()
    for epoch, correct in enumerate(right, start=1):
        cut = end in ("time", "diverged", "memory") and epoch == len(right)
        steps = shard.steps // 2 if cut else shard.steps
        clock += STEP * steps + JUDGE * (not cut)
        curve.append(_judged(epoch, clock, correct, steps, shard, data, cut))
    if end == "diverged":
        curve[-1]["loss"] = None
    trained = sum(entry["samples"] for entry in curve)
    steps = sum(ceil(entry["samples"] / batch) for entry in curve)
    return {
        "id": (number - 1) * case["GROUPS"] + worker + 1,
        "worker": worker,
        "round": number,
        "parent": parent,
        "operation": morphisms[0]["operation"] if morphisms else "initial",
        "morphisms": morphisms,
        "hyperparameters": {"batch": batch, "kernel": kernel},
        "given": given,
        "started": given + PAUSE,
        "returned": clock + PAUSE,
        "planned_epochs": ceil(case["EPOCHS"] * min(number, 4) / 4),
        "steps": steps,
        "executed_operations": trained,
        "curve": curve,
        "training_seconds": STEP * steps,
        "validation_seconds": JUDGE * sum(entry["correct"] is not None for entry in curve),
        "warmup_seconds": WARM,
        "deviation": 1e-13 * bool(morphisms),
        "nbytes": 50 * 2**20,
        "planned_bytes": 60 * 2**20,
        "end": end,
    }


def _judged(epoch: int, clock: float, correct: int, steps: int, shard: Shard, data: Json, cut: bool) -> Json:
    counted = 0 if cut else data["validation_samples"]
    return {
        "epoch": epoch,
        "seconds": clock,
        "loss": 2.0 / epoch,
        "validation_loss": None if cut else 2.5 / epoch,
        "skipped": 0,
        "samples": steps * shard.batch if cut else shard.samples * shard.ranks,
        "correct": None if cut else correct,
        "counted": counted,
        "fingerprint": expected_fingerprint(counted) if counted else 0,
    }


def _operations(case: Case, data: Json, trials: Sequence[Json]) -> None:
    """What the hooks would have counted, in the place of the samples."""
    graphs = lineage(networks.for_data(case.settings, data["shape"], data["classes"]), trials_of(trials))
    for trial in trials:
        trial["executed_operations"] *= opcount.count(graphs[trial["id"]], "model").total


def _of_trials(case: Case, data: Json, trials: list[Json], seconds: float) -> Json:
    golden_raw = golden()["tests"][0]["raw"]
    kept = {name: golden_raw[name] for name in ("residuals", "memory", "wrong_sums", "differing_ranks")}
    shard = Shard(data["training_samples"], 0, case["DEGREE"], case["BATCH"])
    phases = {name: golden_raw["phases"][name] for name in ("start-up", "set-up", "residuals")}
    phases["search"] = seconds + 0.01
    own = {name: _spread(trials, name) for name in ("training", "validation", "warmup")}
    busy = [sum(_seconds(trials, name, worker) for name in own) for worker in (0, 1)]
    own["idle"] = _least_mean_most([seconds - part for part in busy])
    return {
        "backend": "none",
        "dataset": data,
        "target": case["TARGET"],
        "sharding": shard.rule,
        **kept,
        "trials": trials,
        "seconds": seconds,
        "group_seconds": own,
        "retired_groups": 0,
        "granted": len(trials),
        "duplicates": 2,
        "steps": sum(trial["steps"] for trial in trials),
        "audit": golden_raw["audit"] | {"steps": 12},
        "samples": sum(entry["samples"] for trial in trials for entry in trial["curve"]),
        "executed_operations": sum(trial["executed_operations"] for trial in trials),
        "skipped_samples": 0,
        "coordinator": {"requests": 30, "busy_seconds": 0.02, "wait_mean": 1e-4, "wait_max": 5e-4},
        "proposals": {"count": 11, "rejected": 1, "seconds_mean": 0.1, "seconds_max": 0.3},
        "largest_deviation": 1e-13,
        "ended_by": "duration",
        "phases": phases,
    }


def _seconds(trials: Sequence[Json], name: str, worker: int) -> float:
    return float(sum(trial[f"{name}_seconds"] for trial in trials if trial["worker"] == worker))


def _spread(trials: Sequence[Json], name: str) -> Json:
    return _least_mean_most([_seconds(trials, name, worker) for worker in (0, 1)])


def _least_mean_most(parts: Sequence[float]) -> Json:
    return {"min": min(parts), "mean": sum(parts) / len(parts), "max": max(parts)}


def put(place: str, value: Any) -> Change:
    """Another value at a place of the raw measurements; numbers are places in lists."""

    def change(raw: Json) -> None:
        *path, last = [int(key) if key.isdigit() else key for key in place.split(".")]
        for key in path:
            raw = raw[key]
        raw[last] = value

    return change


def all_of(*changes: Change) -> Change:
    return lambda raw: [change(raw) for change in changes]
