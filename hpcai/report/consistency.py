"""What raw measurements owe each other and the input: numbers that nothing is derived from, or that could be traded.

Only claims that every test that PASSED fulfils, on any machine; so a broken one means an altered file.
"""

import math
from collections.abc import Iterator
from itertools import pairwise
from math import comb
from typing import Any

from hpcai.data.bootstrap import sampler
from hpcai.data.order import Shard
from hpcai.inputfile import Case
from hpcai.score import first_reaching
from hpcai.train.recipe import Recipe

Json = dict[str, Any]

SLACK = 1e-6  # seconds and share: sums of many clock readings, added up in different orders
TICK = 0.011  # seconds: the operating system tells when a process began to its clock tick


def contradictions(case: Case, raw: Json) -> Iterator[str]:
    """The claims that the raw measurements of a PASSED test break; none if all hold."""
    for claims in (_settings, _work, _curve, _validation, _members, _reached, _bags, _seconds):
        for claim, holds in claims(case, raw).items():
            if not holds:
                yield claim


def _settings(case: Case, raw: Json) -> dict[str, bool]:
    return {
        "counts >= 0": all(value >= 0 for value in raw.values() if isinstance(value, int)),
        "residuals >= 0": all(worst["value"] >= 0 for worst in raw["residuals"].values()),
        "training_samples = SAMPLES": case["SAMPLES"] in (0, raw["dataset"]["training_samples"]),
        "target = TARGET": case["TARGET"] in (0, raw["target"]),
        "backend is none if, and only if, DEGREE = 1": (raw["backend"] == "none") == (case["DEGREE"] == 1),
    }


def _work(case: Case, raw: Json) -> dict[str, bool]:
    """What the samplers and shards say about the models, one after the other."""
    samples, epochs = raw["dataset"]["training_samples"], case["EPOCHS"]
    shards = [
        Shard(sampler(case["SAMPLER"], samples, case["SEED"], m, case["GROUPS"]).size, 0, case["DEGREE"], case["BATCH"])
        for m in range(case["GROUPS"])
    ]
    steps = [shard.steps * epochs for shard in shards]
    trained = sum(shard.samples for shard in shards) * case["DEGREE"] * epochs
    return {
        "samples = EPOCHS x the shards of all models": raw["samples"] == trained,
        "steps = EPOCHS x the steps of all models": raw["steps"] == sum(steps),
        "model_steps_min, of the models": raw["model_steps_min"] == min(steps),
        "model_steps_max, of the models": raw["model_steps_max"] == max(steps),
        "steps_per_epoch of the first model": raw["steps_per_epoch"] == shards[0].steps,
        "sharding of the first model": raw["sharding"] == shards[0].rule,
    }


def _curve(case: Case, raw: Json) -> dict[str, bool]:
    """The validation curve of the first model."""
    curve, samples = raw["curve"], raw["dataset"]["validation_samples"]
    seconds = [0.0, *(entry["seconds"] for entry in curve)]
    return {
        "curve: epochs that EVALUATE asks for": [entry["epoch"] for entry in curve] == _evaluated(case),
        "curve: counted = validation_samples": all(entry["counted"] == samples for entry in curve),
        "curve: one fingerprint": len({entry["fingerprint"] for entry in curve}) == 1,
        "curve: correct <= validation_samples": all(0 <= entry["correct"] <= samples for entry in curve),
        "curve: losses finite": all(0 <= entry["loss"] < math.inf for entry in curve),
        "curve: time goes on": all(earlier < later for earlier, later in pairwise(seconds)),
    }


def _evaluated(case: Case) -> list[int]:
    recipe = Recipe.of(case.settings)
    return [epoch for epoch in range(1, recipe.epochs + 1) if recipe.evaluates(epoch)]


def _validation(case: Case, raw: Json) -> dict[str, bool]:
    passes, samples = raw["validation_passes"], raw["dataset"]["validation_samples"]
    pairs = comb(case["GROUPS"], 2) * samples
    # Two models agree on no more samples than all but those by which one is better.
    spread = (case["GROUPS"] - 1) * (raw["member_correct_max"] - raw["member_correct_min"])
    return {
        "validation_passes = GROUPS x evaluated epochs": passes == case["GROUPS"] * len(_evaluated(case)),
        "validation_counted = passes x samples": raw["validation_counted"] == passes * samples,
        "correct <= validation_samples": 0 <= raw["correct"] <= samples,
        "agreeing_pairs <= pairs of models - their spread": 0 <= raw["agreeing_pairs"] <= pairs - spread,
    }


def _members(case: Case, raw: Json) -> dict[str, bool]:
    least, most, total = (raw[f"member_correct_{name}"] for name in ("min", "max", "sum"))
    models, last = case["GROUPS"], raw["curve"][-1]["correct"]
    best = max(entry["correct"] for entry in raw["curve"])
    return {
        "member_correct_min <= the first model's <= max": least <= last <= most,
        "member_correct_best >= max": raw["member_correct_best"] >= max(best, most),
        "member_correct_best <= validation_samples": raw["member_correct_best"] <= raw["dataset"]["validation_samples"],
        "member_correct_sum: between min and max": (models - 1) * least + most <= total <= least + (models - 1) * most,
        "one model: its best is the curve's": models > 1 or raw["member_correct_best"] == best,
        "one model: the ensemble is the model": models > 1 or _nearly(raw["correct"], last, raw["dataset"]),
    }


def _nearly(correct: int, other: int, dataset: Json) -> bool:
    """Two passes over the same samples: softmax outputs can tie where the logits do not, on one sample in many."""
    return bool(abs(correct - other) <= 1 + dataset["validation_samples"] // 1000)


def _reached(case: Case, raw: Json) -> dict[str, bool]:
    """Time and epochs to quality: of the models that reached the target, and of none else."""
    count, samples = raw["reached_models"], raw["dataset"]["validation_samples"]
    entry = first_reaching(raw["curve"], samples, raw["target"])
    own = (entry["seconds"], entry["epoch"]) if entry else (0, 0)
    totals = (raw["reached_seconds_sum"], raw["reached_epochs_sum"])
    slowest = (raw["reached_seconds_max"], raw["reached_epochs_max"])
    return {
        "reached_models <= GROUPS": bool(entry) <= count <= (case["GROUPS"] if entry else case["GROUPS"] - 1),
        "reached_models > 0 if the best reached the target": (count > 0)
        == (raw["member_correct_best"] / samples >= raw["target"]),
        "reached_epochs_max was evaluated": slowest[1] in [0, *_evaluated(case)],
        "reached: max <= sum <= models x max": all(map(_within, slowest, totals, [count, count])),
        "reached: the first model's <= max": all(map(_at_most, own, slowest)),
        "one model: reached when the curve says": case["GROUPS"] > 1 or own == slowest == totals,
        "reached_seconds_max <= training + validation": _at_most(slowest[0], _elapsed(raw)),
    }


def _within(most: float, total: float, count: int) -> bool:
    return _at_most(most, total) and _at_most(total, most * count)


def _elapsed(raw: Json) -> float:
    return float(raw["phases"]["training"] + raw["phases"]["validation"])


def _at_most(one: float, other: float) -> bool:
    """one <= other, but for rounding."""
    return one <= other + SLACK * max(1.0, abs(other))


def _bags(case: Case, raw: Json) -> dict[str, bool]:
    """Which samples some model did not train on follows from the seed."""
    return {
        "bag_judged: what the samplers left out": raw["bag_judged"] == _left_out(case, raw),
        "bag_correct <= bag_judged": 0 <= raw["bag_correct"] <= raw["bag_judged"],
    }


def _left_out(case: Case, raw: Json) -> int:
    samples = raw["dataset"]["training_samples"]
    in_all_bags = sampler(case["SAMPLER"], samples, case["SEED"], 0, case["GROUPS"]).in_bag(0, samples)
    for member in range(1, case["GROUPS"]):
        if not in_all_bags.any():
            break
        in_all_bags &= sampler(case["SAMPLER"], samples, case["SEED"], member, case["GROUPS"]).in_bag(0, samples)
    return samples - int(in_all_bags.sum())


def _seconds(case: Case, raw: Json) -> dict[str, bool]:
    """Phases of the slowest rank, and the end of the first model's curve."""
    phases, end = raw["phases"], raw["curve"][-1]["seconds"]
    before = [phases[phase] for phase in ("set-up", "residuals", "warm-up")]
    longest = max(phases["training"], phases["validation"])
    return {
        "phases >= 0": all(seconds >= 0 for seconds in phases.values()),
        "phase training > 0": phases["training"] > 0,
        "phase data wait <= training": _at_most(phases["data wait"], phases["training"]),
        "phase start-up is the first test's": ("start-up" in phases) == (case.index == 1),
        "phase start-up >= what it includes": phases.get("start-up", math.inf) + TICK >= max(before),
        "the curve ends within training + validation": _at_most(end, _elapsed(raw)),
        "one model: the curve ends after training": case["GROUPS"] > 1 or _at_most(longest, end),
    }
