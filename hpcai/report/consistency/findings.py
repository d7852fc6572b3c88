"""What the curves, models and ensemble of a weather test owe each other, and what its loaders owe the data."""

from collections.abc import Sequence
from math import isclose
from typing import Any

from hpcai.detections.agreement import pairs
from hpcai.detections.stored import TRUE
from hpcai.formulas import score
from hpcai.inputfile import Case
from hpcai.report.consistency import quality
from hpcai.report.consistency.rounding import at_most
from hpcai.result.quality import LOOSE, MEASURED

Json = dict[str, Any]

BOX_BYTES = 4 * 5 * TRUE  # of a frame's boxes
NEAR = 0.01  # mAP of two passes over the same frames, should a device round the second otherwise
ROUNDING = 1e-9


def curve(case: Case, raw: Json) -> dict[str, bool]:
    """The validation curve of the first model."""
    entries = raw["curve"]
    return {
        **quality.curve(case, raw),
        "curve: a precision for each class that has true boxes": all(
            _of_classes(entry["average_precision"], raw["true_boxes"]) for entry in entries
        ),
    }


def _of_classes(precision: Sequence[float | None], boxes: Sequence[int]) -> bool:
    """Whether each class has a precision from 0 to 1 if, and only if, it has boxes."""
    if len(precision) != len(boxes):
        return False
    return all(
        (value is None) == (count == 0) and 0 <= (value or 0) <= 1
        for value, count in zip(precision, boxes, strict=True)
    )


def ensemble(case: Case, raw: Json) -> dict[str, bool]:
    """What was found by the models together."""
    passes, samples = raw["validation_passes"], raw["dataset"]["validation_samples"]
    most = pairs(case["GROUPS"]) * samples
    found, boxes = raw["average_precision"], raw["true_boxes"]
    return {
        "validation_passes = GROUPS x evaluated epochs": passes == case["GROUPS"] * len(quality.evaluated(case)),
        "validation_counted = passes x samples": raw["validation_counted"] == passes * samples,
        "true_boxes: a number for each class, some above 0": len(boxes) == raw["dataset"]["classes"] and any(boxes),
        "true_boxes: at most 15 a frame": sum(boxes) <= TRUE * samples,
        "average_precision: of each class that has true boxes": all(
            _of_classes(classes, boxes) for classes in found.values()
        ),
        "average_precision: no less where less overlap is asked for": score.mean_precision(found[LOOSE])
        >= score.mean_precision(found[MEASURED]) - ROUNDING,
        "bag_average_precision: from 0 to 1": len(raw["bag_average_precision"]) == len(boxes)
        and all(0 <= (value or 0) <= 1 for value in raw["bag_average_precision"]),
        "bag_average_precision: of no class where no frame was judged": raw["bag_judged"] > 0
        or not any(value is not None for value in raw["bag_average_precision"]),
        "0 <= agreement <= pairs of models x samples": 0 <= raw["agreement"] <= most * (1 + ROUNDING),
    }


def members(case: Case, raw: Json) -> dict[str, bool]:
    """Qualities of the models at their end, and the best of any epoch."""
    least, most, total = (raw[f"member_quality_{name}"] for name in ("min", "max", "sum"))
    models, qualities = case["GROUPS"], [score.mean_precision(entry["average_precision"]) for entry in raw["curve"]]
    best, together = raw["member_quality_best"], score.mean_precision(raw["average_precision"][MEASURED])
    return {
        "member_quality_min <= the first model's <= max": least <= qualities[-1] <= most,
        "member_quality_best >= max": best >= max(*qualities, most),
        "member_quality_best <= 1": best <= 1,
        "member_quality_sum: between min and max": at_most((models - 1) * least + most, total)
        and at_most(total, least + (models - 1) * most),
        "one model: its best is the curve's": models > 1 or best == max(qualities),
        "one model: the ensemble is the model": models > 1 or isclose(together, qualities[-1], abs_tol=NEAR),
    }


def loading(case: Case, raw: Json) -> dict[str, bool]:
    """Generated fields are read from nowhere; of packed ones, each frame is read when it is trained on."""
    found, size = raw["loading"], raw["memory"]["picture_bytes"]
    read = (found["bytes_read"], found["read_seconds"], found["decompress_seconds"])
    trained = raw["samples"] + raw["skipped_samples"]
    most = case["GROUPS"] * case["DEGREE"] * raw["phases"]["training"]
    return {
        "loading: nothing is read of generated fields": case["DATASET"] != "generated" or read == (0, 0, 0),
        "loading: some time, within training": found["load_seconds"] > 0 and at_most(found["load_seconds"], most),
        "loading: seconds only where something is read": found["bytes_read"] > 0 or not any(read),
        "loading: packed frames, each time they are trained on": not _packed(raw)
        or found["bytes_read"] == trained * size,
    }


def memory(case: Case, raw: Json) -> dict[str, bool]:
    """What the loaders keep, and the frames they deliver."""
    used, dataset, copies = raw["memory"], raw["dataset"], 1 if case["STAGE"] == "none" else 2
    frames = dataset["training_samples"] + dataset["validation_samples"]
    channels, height, width = dataset["shape"]
    whole, least = channels * height * width, copies * BOX_BYTES * frames
    made = case["DATASET"] == "generated"
    return {
        "memory: picture_bytes of the dataset's shape": used["picture_bytes"] == 4 * whole
        or (not made and used["picture_bytes"] == 2 * whole),
        "memory: data_bytes hold the boxes": used["data_bytes"] == least if made else used["data_bytes"] >= least,
        "memory: samples of the dataset": used["samples"] == dataset["training_samples"],
    }


def _packed(raw: Json) -> bool:
    channels, height, width = raw["dataset"]["shape"]
    return bool(raw["memory"]["picture_bytes"] == 2 * channels * height * width)
