"""What arrived at the networks, as it fits an entry."""

from typing import Any

from hpcai.frozen.samples import TRAINING, VALIDATION
from hpcai.frozen.votes import Ensemble
from hpcai.record.content import ONE_IN, DataContent, Delivered
from hpcai.record.plain import plain
from hpcai.record.preflight import Worst
from hpcai.workloads.ensemble.record import Recount


def with_delivered(entry: Any) -> None:
    """Enough samples for each epoch and evaluation of each model, in place."""
    raw, models = entry["raw"], entry["settings"]["GROUPS"]
    steps = raw["replay"]["steps"]
    passes = raw["work"].get("validation_passes", 0)
    packed = raw["dataset"]["name"] == "imagenet"
    classifies = entry["workload"] in ("ensemble", "nas")
    counted = passes or models  # of searches the validations themselves
    found = Delivered(
        samples=models * (entry["settings"]["EPOCHS"] + 1) + passes,
        deviation=Worst(value=0.1, where="model 0, epoch 1, step 1, sample 1: values"),
        positions=8 * steps,
        misplaced=0,
        recipe_steps=steps,
        recipe=Worst(value=0.0, where=""),
        validations=passes + models,
        differing_validations=0,
        recounted_validations=counted if classifies else 0,
        miscounted_validations=0,
        data=DataContent(
            unknown_splits=0,
            shared=0,
            shared_allowed=raw["dataset"]["validation_samples"] // ONE_IN if packed else 0,
        ),
    )
    raw["delivered"] = plain(found)
    if entry["workload"] == "ensemble":
        raw["ensemble"]["recount"] = plain(_recount(entry["settings"]["GROUPS"], raw))


def _recount(models: int, raw: Any) -> Recount:
    """A recount of all samples that agrees with the figures of the ensemble."""
    data, together, members = raw["dataset"], raw["ensemble"], raw["members"]
    of = Ensemble(models, data["classes"], data["validation_samples"], data["training_samples"])
    validation, training = (of.sampled(split, 0) for split in (VALIDATION, TRAINING))
    bags = {name: together[name] for name in ("bag_evaluated", "bag_correct")}
    return Recount(
        entropy=16 * "0",
        sha256=64 * "0",
        samples=len(validation.samples),
        correct=together["correct"],
        agreeing_pairs=together["agreeing_pairs"],
        members_sum=members["sum"],
        members_min=members["min"],
        members_max=members["max"],
        bag_samples=len(training.samples),
        **bags,
        voted=len(validation.voted) + len(training.voted),
        wrong_votes=0,
    )
