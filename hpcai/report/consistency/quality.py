"""What validation curves, models and the ensemble owe each other."""

import math
from itertools import pairwise
from math import comb
from typing import Any

from hpcai.formulas import score
from hpcai.formulas.sample_fingerprint import expected_fingerprint
from hpcai.inputfile import Case
from hpcai.report.consistency.rounding import at_most, elapsed, within
from hpcai.train.recipe import Recipe

Json = dict[str, Any]


def curve(case: Case, raw: Json) -> dict[str, bool]:
    """The validation curve of the first model."""
    entries = raw["curve"]
    seconds = [0.0, *(entry["seconds"] for entry in entries)]
    return {
        **judged(raw),
        "curve: epochs that EVALUATE asks for": [entry["epoch"] for entry in entries] == evaluated(case),
        "curve: no loss is missing": all(entry["loss"] is not None for entry in entries),
        "curve: time goes on": all(earlier < later for earlier, later in pairwise(seconds)),
    }


def judged(raw: Json) -> dict[str, bool]:
    """What each entry of a curve owes the validation set, also of a test that ended early."""
    entries, samples = raw["curve"], raw["dataset"]["validation_samples"]
    expected = expected_fingerprint(samples) if entries else 0
    losses = (entry["loss"] for entry in entries if entry["loss"] is not None)
    return {
        "curve: counted = validation_samples": all(entry["counted"] == samples for entry in entries),
        "curve: the fingerprint of all samples": all(entry["fingerprint"] == expected for entry in entries),
        "curve: a quality from 0 to 1": all(0 <= score.quality(entry, samples) <= 1 for entry in entries),
        "curve: losses finite": all(0 <= loss < math.inf for loss in losses),
    }


def evaluated(case: Case) -> list[int]:
    """The epochs after which a model is judged."""
    recipe = Recipe.of(case.settings)
    return [epoch for epoch in range(1, recipe.epochs + 1) if recipe.evaluates(epoch)]


def validation(case: Case, raw: Json) -> dict[str, bool]:
    passes, samples = raw["validation_passes"], raw["dataset"]["validation_samples"]
    pairs = comb(case["GROUPS"], 2) * samples
    # Two models agree on no more samples than all but those by which one is better.
    spread = (case["GROUPS"] - 1) * (raw["member_correct_max"] - raw["member_correct_min"])
    return {
        "validation_passes = GROUPS x evaluated epochs": passes == case["GROUPS"] * len(evaluated(case)),
        "validation_counted = passes x samples": raw["validation_counted"] == passes * samples,
        "correct <= validation_samples": 0 <= raw["correct"] <= samples,
        "agreeing_pairs <= pairs of models - their spread": 0 <= raw["agreeing_pairs"] <= pairs - spread,
        "bag_correct <= bag_judged": 0 <= raw["bag_correct"] <= raw["bag_judged"],
    }


def members(case: Case, raw: Json) -> dict[str, bool]:
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


def reached(case: Case, raw: Json) -> dict[str, bool]:
    """Time and epochs to quality: of the models that reached the target, and of none else."""
    count, samples = raw["reached_models"], raw["dataset"]["validation_samples"]
    entry = score.first_reaching(raw["curve"], samples, raw["target"])
    own = (entry["seconds"], entry["epoch"]) if entry else (0, 0)
    totals = (raw["reached_seconds_sum"], raw["reached_epochs_sum"])
    slowest = (raw["reached_seconds_max"], raw["reached_epochs_max"])
    best = raw["member_quality_best"] if "member_quality_best" in raw else raw["member_correct_best"] / samples
    return {
        "reached_models <= GROUPS": bool(entry) <= count <= (case["GROUPS"] if entry else case["GROUPS"] - 1),
        "reached_models > 0 if the best reached the target": (count > 0)
        == (best >= raw["target"]),
        "reached_epochs_max was evaluated": slowest[1] in [0, *evaluated(case)],
        "reached: max <= sum <= models x max": all(map(within, slowest, totals, [count, count])),
        "reached: the first model's <= max": all(map(at_most, own, slowest)),
        "one model: reached when the curve says": case["GROUPS"] > 1 or own == slowest == totals,
        "reached_seconds_max <= training + validation": at_most(slowest[0], elapsed(raw)),
    }
