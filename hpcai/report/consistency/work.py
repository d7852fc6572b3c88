"""What the input, the samplers and the shards say about the work that was done."""

from collections.abc import Iterator
from typing import Any

from hpcai.data.bootstrap import sampler
from hpcai.inputfile import Case
from hpcai.report.consistency.shards import shards_of, trained

Json = dict[str, Any]


def settings(case: Case, raw: Json) -> dict[str, bool]:
    return {
        "counts >= 0": all(value >= 0 for value in _integers(raw)),
        "residuals >= 0": all(worst["value"] >= 0 for worst in raw["residuals"].values()),
        "audit: values >= 0": all(value >= 0 for value in _audited(raw["audit"])),
        "audit: one step in each epoch of each model": raw["audit"]["steps"] == case["GROUPS"] * case["EPOCHS"],
        "models_between_nodes: some, with several ranks": 1 <= raw.get("models_between_nodes", 1) <= case["GROUPS"]
        and ("models_between_nodes" not in raw or case["DEGREE"] > 1),
        "backend is none if, and only if, DEGREE = 1": (raw["backend"] == "none") == (case["DEGREE"] == 1),
    }


def _audited(audit: Json) -> list[float]:
    counts = [value for value in audit.values() if isinstance(value, int)]
    return [*counts, audit["deviation"]["value"], audit["lost"]["value"]]


def _integers(value: Any) -> Iterator[int]:
    """All whole numbers in a JSON value."""
    if isinstance(value, int):
        yield value
    elif isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _integers(item)


def work(case: Case, raw: Json) -> dict[str, bool]:
    """What the samplers and shards say about the models, one after the other."""
    shards = shards_of(case, raw)
    steps = [shard.steps * case["EPOCHS"] for shard in shards]
    return {
        "samples + skipped_samples = EPOCHS x the shards": raw["samples"] + raw["skipped_samples"]
        == trained(case, shards),
        "steps = EPOCHS x the steps of all models": raw["steps"] == sum(steps),
        "model_steps_min, of the models": raw["model_steps_min"] == min(steps),
        "model_steps_max, of the models": raw["model_steps_max"] == max(steps),
        "steps_per_epoch of the first model": raw["steps_per_epoch"] == shards[0].steps,
        "sharding of the first model": raw["sharding"] == shards[0].rule,
    }


def bags(case: Case, raw: Json) -> dict[str, bool]:
    """Which samples some model did not train on follows from the seed."""
    return {"bag_judged: what the samplers left out": raw["bag_judged"] == _left_out(case, raw)}


def _left_out(case: Case, raw: Json) -> int:
    samples = raw["dataset"]["training_samples"]
    in_all_bags = sampler(case["SAMPLER"], samples, case["SEED"], 0, case["GROUPS"]).in_bag(0, samples)
    for member in range(1, case["GROUPS"]):
        if not in_all_bags.any():
            break
        in_all_bags &= sampler(case["SAMPLER"], samples, case["SEED"], member, case["GROUPS"]).in_bag(0, samples)
    return samples - int(in_all_bags.sum())
