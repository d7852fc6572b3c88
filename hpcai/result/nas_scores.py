"""The scores of a search, from its raw measurements and what was measured before it."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import to_builtins

from hpcai.formulas import aiperf
from hpcai.formulas.aiperf import Credit, Work
from hpcai.inputfile import Case
from hpcai.record.trial import ENDS, FAILED, trials_of
from hpcai.result import beside
from hpcai.result.memory import memory
from hpcai.result.precision import speed
from hpcai.result.scores import efficiency, staging

Json = dict[str, Any]

PARTS = {"training": "training", "validation": "validation", "warmup": "warm-up", "idle": "idle"}


def scores(
    case: Case, raw: Json, rate: float, credited: int, each: Mapping[int, Work], earlier: Sequence[Json]
) -> Json:
    """`rate`, `credited`: FLOPS and operations by rule `model`; `each`: those of a sample by `aiperf`, by trial."""
    found = [credit for trial in trials_of(raw["trials"]) for credit in aiperf.credits(trial.curve, each[trial.id])]
    found.sort(key=lambda credit: credit.seconds)
    ends = Counter(trial["end"] for trial in raw["trials"])
    mean = {name: raw["group_seconds"][name]["mean"] for name in PARTS}
    return {
        "flops": rate,
        **over_time(case, raw, found),
        "training_operations": sum(credit.training for credit in found),
        "validation_operations": sum(credit.validation for credit in found),
        **_quality(raw, found),
        "efficiency": efficiency(case, rate, earlier),
        "training_rate": credited / mean["training"] if mean["training"] else None,
        "images_per_second": raw["samples"] / (raw["seconds"] - raw["group_seconds"]["validation"]["min"]),
        "idle_share": mean["idle"] / raw["seconds"],
        "shares": {words: mean[name] / raw["seconds"] for name, words in PARTS.items()},
        "coordinator_share": raw["coordinator"]["busy_seconds"] / raw["seconds"],
        "ends": {end: ends[end] for end in ENDS},
        "failed_trials": sum(ends[end] for end in FAILED),
        "precision_speed": speed(raw),
        **beside.pace(raw),
        **memory(raw),
        **staging(raw),
    }


def over_time(case: Case, raw: Json, found: Sequence[Credit]) -> Json:
    """OPS at the end, the highest and the last regulated score, and the series that they are from."""
    seconds = raw["seconds"]
    step = aiperf.interval(case["INTERVAL"], seconds)
    returned = [trial["returned"] for trial in raw["trials"] if trial["end"] not in FAILED]
    points = aiperf.series(found, returned, seconds, step, raw["dataset"]["validation_samples"])
    least = aiperf.least_seconds(seconds)
    top = aiperf.highest(points, least)
    return {
        "ops": points[-1].ops,
        "regulated_score": top.regulated_score,
        "regulated_seconds": top.seconds,
        "regulated_last": points[-1].regulated_score,
        "least_seconds": least,
        "interval": step,
        "series": to_builtins(points),
    }


def _quality(raw: Json, found: Sequence[Credit]) -> Json:
    """The best accuracy of any trial, and what it took to reach the target; `found` in the order of time."""
    quality, target = max((credit.accuracy for credit in found), default=0.0), raw["target"]
    first = next((place for place, credit in enumerate(found) if credit.accuracy >= target), None)
    spent = None if first is None else sum(credit.training + credit.validation for credit in found[: first + 1])
    return {
        "quality": quality,
        "target": target,
        "reached": first is not None,
        "time_to_quality": None if first is None else found[first].seconds,
        "operations_to_quality": spent,
    }
