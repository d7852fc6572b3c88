"""What a search owes the input, its trials and the clock, all trials together."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from math import isclose
from typing import Any

from hpcai.data.order import Shard
from hpcai.formulas.precision import PRECISIONS
from hpcai.formulas.trial_schedule import number
from hpcai.inputfile import Case
from hpcai.report.consistency.memory import sizes
from hpcai.report.consistency.rounding import at_most
from hpcai.result import nas
from hpcai.result.nas_checks import SKEW

Json = dict[str, Any]

LATE, LAST_MESSAGES = 0.01, 10.0  # share, seconds: of a search, until all know that the last trial has returned
ROUNDING = 1e-6  # share: sums of many clock readings, added up in different orders
REQUESTS = 2  # of a trial, at least: it is asked for, and comes back
OWN = ("training", "validation", "warmup")  # seconds that a trial tells of itself


def identities(case: Case, raw: Json) -> dict[str, bool]:
    """Which trials there are; other claims work with their ids."""
    return distinct(case, raw) | {"granted = trials": raw["granted"] == len(raw["trials"]) > 0}


def distinct(case: Case, raw: Json) -> dict[str, bool]:
    """Trials are told apart, also those of a search that ended early."""
    groups = case["GROUPS"]
    rounds = [[trial["round"] for trial in each] for each in by_worker(case, raw).values()]
    return {
        "trials: sorted by id, each once": all(one["id"] < other["id"] for one, other in pairwise(raw["trials"])),
        "trials: ids by group and round": all(
            trial["worker"] < groups and trial["id"] == number(trial["round"], trial["worker"], groups)
            for trial in raw["trials"]
        ),
        "trials: rounds of a group follow one another": replayed(case)
        or all(each == [*range(1, len(each) + 1)] for each in rounds),
    }


def replayed(case: Case) -> bool:
    """Whether a recorded search was done again, whose choices follow from nothing here."""
    return bool(case.recording)


def by_worker(case: Case, raw: Json) -> dict[int, list[Json]]:
    """The trials of each group of the grid, in their order."""
    found: dict[int, list[Json]] = {worker: [] for worker in range(case["GROUPS"])}
    for trial in raw["trials"]:
        found.setdefault(trial["worker"], []).append(trial)
    return found


def settings(case: Case, raw: Json) -> dict[str, bool]:
    precision = PRECISIONS[case["PRECISION"]]
    audit, steps = raw["audit"], sum(trial["steps"] for trial in raw["trials"])
    shard = Shard(raw["dataset"]["training_samples"], 0, case["DEGREE"], case["BATCH"])
    values = [*(worst["value"] for worst in raw["residuals"].values()), audit["deviation"]["value"]]
    return {
        "residuals and audit: values >= 0": min(*values, audit["lost"]["value"]) >= 0,
        "audit: steps of the trials": audit["steps"] <= steps,
        "sharding, by BATCH": raw["sharding"] == shard.rule,
        "backend is none if, and only if, DEGREE = 1": (raw["backend"] == "none") == (case["DEGREE"] == 1),
        "models_between_nodes: some, with several ranks": 1 <= raw.get("models_between_nodes", 1) <= case["GROUPS"]
        and ("models_between_nodes" not in raw or case["DEGREE"] > 1),
        "skipped_samples: in fp16 only": raw["skipped_samples"] == 0 or precision.scaled,
        "wrong elements: counted in int8 only": ("wrong" in raw["residuals"]) == precision.quantised,
        "probe: of other precisions than fp32": "probe" not in raw or case["PRECISION"] != "fp32",
    }


def sums(case: Case, raw: Json) -> dict[str, bool]:
    """What is told of all trials is the sum of what each tells."""
    trials = raw["trials"]
    lost = sum(trial["end"] == "lost" for trial in trials)
    return {
        "samples = those of the trials": raw["samples"] == sum(map(nas.samples, trials)),
        "skipped_samples = those of the trials": raw["skipped_samples"] == sum(map(nas.skipped, trials)),
        "steps = those of the trials": raw["steps"] == sum(trial["steps"] for trial in trials),
        "executed_operations = those of the trials": raw["executed_operations"]
        == sum(trial["executed_operations"] for trial in trials),
        "largest_deviation: that of the trials": raw["largest_deviation"]
        == max(trial["deviation"] for trial in trials),
        "retired_groups < GROUPS": raw["retired_groups"] < case["GROUPS"],
        "retired_groups: each with the trial that it lost": raw["retired_groups"] == lost,
    }


def seconds(case: Case, raw: Json) -> dict[str, bool]:
    """Seconds of the groups follow from those of their trials, and the search outlasts them all."""
    groups, last = raw["group_seconds"], max(trial["returned"] for trial in raw["trials"])
    sums = [
        {name: sum(trial[f"{name}_seconds"] for trial in trials) for name in OWN}
        for trials in by_worker(case, raw).values()
    ]
    idle = [max(0.0, raw["seconds"] - sum(each.values())) for each in sums]
    claims = {
        "seconds > 0": raw["seconds"] > 0,
        "seconds: until the last trial returned": isclose(last, raw["seconds"], rel_tol=ROUNDING),
        "seconds: of phase search": raw["phases"]["search"] <= (1 + LATE) * raw["seconds"] + LAST_MESSAGES,
        "seconds: within phase search": at_most(raw["seconds"], raw["phases"]["search"] + SKEW),
        "seconds: more than validation": raw["seconds"] > groups["validation"]["min"],
        "group_seconds: min <= mean <= max": all(
            at_most(each["min"], each["mean"]) and at_most(each["mean"], each["max"]) for each in groups.values()
        ),
        "group_seconds idle: what the others leave": _same(groups["idle"], idle),
    }
    for name in OWN:
        claims[f"group_seconds {name}: the sums of the trials"] = _same(groups[name], [each[name] for each in sums])
    return claims | _order(case, raw)


def _same(told: Mapping[str, float], values: Sequence[float]) -> bool:
    expected = {"min": min(values), "mean": sum(values) / len(values), "max": max(values)}
    return all(isclose(told[name], value, rel_tol=ROUNDING, abs_tol=ROUNDING) for name, value in expected.items())


def _order(case: Case, raw: Json) -> dict[str, bool]:
    """A group has one trial at a time."""
    pairs = [pair for trials in by_worker(case, raw).values() for pair in pairwise(trials)]
    return {
        "trials: of a group one after the other": all(
            max((entry["seconds"] for entry in one["curve"]), default=0.0) <= other["started"]
            for one, other in pairs
            if one["end"] != "lost"
        )
    }


def ending(case: Case, raw: Json) -> dict[str, bool]:
    """The search ended by what it says; its time may have been over before the last trials were."""
    count, why, lasted = len(raw["trials"]), raw["ended_by"], raw["phases"]["search"] + SKEW
    rounds = [trial["round"] for trial in raw["trials"]]
    over = 0 < case["DURATION"] <= lasted
    reached = {
        "trials": replayed(case) or case["TRIALS"] == count or (over and case["TRIALS"] > 0),
        "rounds": case["ROUNDS"] == max(rounds, default=0) or (over and case["ROUNDS"] > 0),
        "duration": over,
        "converged": 0 < case["WINDOW"] <= lasted,
        "exhausted": raw["proposals"]["count"] > count,
    }
    cut = any(trial["end"] == "time" for trial in raw["trials"])
    return {
        "ended_by: what was reached": reached[why],
        "at most TRIALS trials": case["TRIALS"] == 0 or count <= case["TRIALS"],
        "at most ROUNDS rounds": case["ROUNDS"] == 0 or max(rounds, default=0) <= case["ROUNDS"],
        "trials cut by the end of the time only": not cut or over or why == "converged",
    }


def coordinator(case: Case, raw: Json) -> dict[str, bool]:
    asked, made = raw["coordinator"], raw["proposals"]
    return {
        "coordinator: requests for each trial": asked["requests"] >= REQUESTS * len(raw["trials"]),
        "proposals: one for each trial": replayed(case) or made["count"] >= len(raw["trials"]),
        "coordinator: mean wait <= longest": at_most(asked["wait_mean"], asked["wait_max"]),
        "coordinator: busy within the search": at_most(asked["busy_seconds"], raw["seconds"]),
        "proposals: mean seconds <= longest": at_most(made["seconds_mean"], made["seconds_max"]),
    }


def memory(case: Case, raw: Json) -> dict[str, bool]:
    used = raw["memory"]
    return {
        **sizes(used),
        "memory: samples of the dataset": used.get("samples", raw["dataset"]["training_samples"])
        == raw["dataset"]["training_samples"],
    }
