"""The raw measurements of a search, made up: two groups, nine trials with real morphisms, true to every claim."""

import json
from collections.abc import Callable, Sequence
from functools import cache
from math import ceil
from typing import Any

from msgspec import convert
from msgspec.structs import replace
from small_run import INPUT, golden
from trial_records import loaded

from hpcai import networks, opcount
from hpcai.comm.grid_coordinates import grids_of, groups_of, idle_ranks, listed_grids
from hpcai.data.order import Shard
from hpcai.formulas.sample_fingerprint import expected_fingerprint
from hpcai.inputfile import Case, Problem, parse
from hpcai.networks.lineage import lineage
from hpcai.record.loading import result_of as result_record
from hpcai.record.plain import plain
from hpcai.record.problem import input_of
from hpcai.record.trial import Trial
from hpcai.results.assembly import enter, without_tests
from hpcai.results.measured import Measured
from hpcai.results.summary import sealed
from hpcai.workloads.nas.record import SearchRaw, SearchRow

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
STEP, VALIDATE, WARM, PAUSE = 0.04, 0.25, 0.05, 0.01  # seconds


@cache
def _made(text: str) -> str:
    problem = parse(f"{_headers()}\n{text}", name="input.dat")
    return json.dumps(result_of(problem, [raw_of(case) for case in problem.cases(2) if case.workload == "nas"]))


def _headers() -> str:
    return INPUT.read_text("utf-8").partition("[ensemble]")[0]


def searched(*settings: str, run: str = "") -> Json:
    """A result with a search, free to be altered; lines of settings replace those of the same KEY."""
    lines = SEARCH.splitlines()
    for setting in settings:
        lines = [line for line in lines if line.split()[-1] != setting.split()[-1]] + [setting]
    return dict(json.loads(_made("\n".join([run, *lines, ""]))))


def with_ensemble() -> Json:
    """The stored result with a search behind its tests, free to be altered."""
    stored = result_record(golden())
    problem = parse(INPUT.read_text("utf-8") + "\n" + SEARCH, name="input.dat")
    (case,) = [case for case in problem.cases(2) if case.workload == "nas"]
    return result_of(problem, [*(test.raw for test in stored.tests), raw_of(case)])


def result_of(problem: Problem, raws: Sequence[Any]) -> Json:
    """A result of these raw measurements, one for each case, on the machine of the stored one."""
    stored, cases = result_record(golden()), problem.cases(2)
    grids = grids_of(cases)
    ranks = tuple(replace(rank, groups=tuple(groups_of(rank.rank, grids))) for rank in stored.ranks)
    environment = replace(stored.environment, grids=listed_grids(grids), idle=idle_ranks(grids, 2))
    made = replace(without_tests(stored), input=input_of(problem), environment=environment, ranks=ranks)
    for case, raw in zip(cases, raws, strict=False):
        made, _ = enter(made, case, Measured(raw, stored.tests[0].memory))
    return plain(sealed(made, len(cases)))


def entry_of_search(*settings: str) -> SearchRow:
    """The entry of the search, its settings as `searched` takes them."""
    entry = result_record(searched(*settings)).tests[0]
    assert isinstance(entry, SearchRow)
    return entry


def raw_of(case: Case) -> SearchRaw:
    """The measurements that the workload would make of a search by the plans above."""
    data = golden()["tests"][0]["raw"]["dataset"]
    trials, free = list[Json](), [0.0, 0.0]
    for plan in PLANS:
        trial = _trial(case, data, plan, free[plan[0]] + PAUSE)
        free[plan[0]] = trial["returned"]
        trials.append(trial)
    _operations(case, data, trials)
    return convert(_of_trials(case, data, trials, max(free)), SearchRaw)


def _trial(case: Case, data: Json, plan: Any, given: float) -> Json:
    worker, number, parent, morphisms, (batch, kernel), right, end = plan
    shard = Shard(data["training_samples"], 0, case["DEGREE"], batch)
    clock, curve = given + PAUSE + WARM, list[Json]()
    for epoch, correct in enumerate(right, start=1):
        cut = end in ("time", "diverged", "memory") and epoch == len(right)
        steps = shard.steps // 2 if cut else shard.steps
        clock += STEP * steps + VALIDATE * (not cut)
        curve.append(_validated(epoch, clock, correct, steps, shard, data, cut))
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
        "validation_seconds": VALIDATE * sum(entry["correct"] is not None for entry in curve),
        "warmup_seconds": WARM,
        "deviation": 1e-13 * bool(morphisms),
        "nbytes": 50 * 2**20,
        "planned_bytes": 60 * 2**20,
        "end": end,
    }


def _validated(epoch: int, clock: float, correct: int, steps: int, shard: Shard, data: Json, cut: bool) -> Json:
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
    """The counts that the hooks would have made, of the given numbers of samples."""
    initial = networks.for_data(case, data["shape"], data["classes"])
    graphs = lineage(initial, convert(trials, tuple[Trial, ...]))
    for trial in trials:
        trial["executed_operations"] *= opcount.count(graphs[trial["id"]], "model").total


def _of_trials(case: Case, data: Json, trials: list[Json], seconds: float) -> Json:
    golden_raw = golden()["tests"][0]["raw"]
    preparation, work = golden_raw["preparation"], golden_raw["work"]
    shard = Shard(data["training_samples"], 0, case["DEGREE"], case["BATCH"])
    phases = {name: golden_raw["phases"][name] for name in ("start_up", "set_up", "residuals")}
    phases["search"] = seconds + 0.01
    own = {name: _spread(trials, name) for name in ("training", "validation", "warmup")}
    busy = [sum(_seconds(trials, name, worker) for name in own) for worker in (0, 1)]
    own["idle"] = _least_mean_most([seconds - part for part in busy])
    return {
        "backend": "none",
        "dataset": data,
        "target": case["TARGET"],
        "sharding": shard.rule,
        "residuals": preparation["residuals"],
        "wrong_sums": preparation["wrong_sums"],
        "trials": trials,
        "seconds": seconds,
        "group_seconds": own,
        "retired_groups": 0,
        "granted": len(trials),
        "duplicates": 2,
        "replay": golden_raw["replay"] | {"steps": 12, "audits": None, "weights": None, "repeated": None},
        "work": {
            "steps": sum(trial["steps"] for trial in trials),
            "samples": sum(entry["samples"] for trial in trials for entry in trial["curve"]),
            "executed_operations": sum(trial["executed_operations"] for trial in trials),
            "skipped_samples": 0,
            "differing_ranks": work["differing_ranks"],
            "between_nodes": 0,
        },
        "loading": loaded(trials, data),
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
    """Replace a value of the raw measurements; numbers in the path are places in lists."""

    def change(raw: Json) -> None:
        *path, last = [int(key) if key.isdigit() else key for key in place.split(".")]
        for key in path:
            raw = raw[key]
        raw[last] = value

    return change


def all_of(*changes: Change) -> Change:
    return lambda raw: [change(raw) for change in changes]
