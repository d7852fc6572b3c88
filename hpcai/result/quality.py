"""How good the models of a test are, one by one and together: of pictures told apart, and of weather found."""

from typing import Any

from hpcai import detections
from hpcai.detections.agreement import pairs
from hpcai.formulas import score
from hpcai.inputfile import Case

Json = dict[str, Any]

NAMES = {"ensemble": "top-1", "weather": "mAP", "nas": "top-1"}
MEASURED, LOOSE = str(detections.OVERLAP), str(detections.LOOSE)  # as JSON has them


def qualities(case: Case, raw: Json) -> Json:
    """The part of a test's scores that says how good the ensemble, and its models, are; of weather also by class."""
    return _found(case, raw) if case.workload == "weather" else _told_apart(case, raw)


def best(case: Case, raw: Json) -> float:
    """The highest quality of the ensemble and of a model at the end."""
    found = qualities(case, raw)
    return float(max(found["quality"], found["member_max"]))


def judged(raw: Json) -> int:
    """How many things a quality is the share of: validation samples, or true boxes."""
    return int(sum(raw["true_boxes"]) if "true_boxes" in raw else raw["dataset"]["validation_samples"])


def disagreement(case: Case, raw: Json) -> float:
    """Of pairs of models on the validation samples; of detectors, pairs of neighbours, each with the next."""
    samples, models = raw["dataset"]["validation_samples"], case["GROUPS"]
    if case.workload == "weather":
        return float(1.0 - raw["agreement"] / (pairs(models) * samples))
    return score.disagreement(raw["agreeing_pairs"], models, samples)


def _told_apart(case: Case, raw: Json) -> Json:
    samples, models = raw["dataset"]["validation_samples"], case["GROUPS"]
    return {
        "quality": raw["correct"] / samples,
        "member_mean": raw["member_correct_sum"] / (models * samples),
        "member_min": raw["member_correct_min"] / samples,
        "member_max": raw["member_correct_max"] / samples,
        "member_best": raw["member_correct_best"] / samples,
        "out_of_bag": raw["bag_correct"] / raw["bag_judged"] if raw["bag_judged"] else None,
        "disagreement": disagreement(case, raw) if models > 1 else None,
    }


def _found(case: Case, raw: Json) -> Json:
    models = case["GROUPS"]
    means = {overlap: score.mean_precision(classes) for overlap, classes in raw["average_precision"].items()}
    return {
        "quality": means[MEASURED],
        "member_mean": raw["member_quality_sum"] / models,
        "member_min": raw["member_quality_min"],
        "member_max": raw["member_quality_max"],
        "member_best": raw["member_quality_best"],
        "out_of_bag": score.mean_precision(raw["bag_average_precision"]) if raw["bag_judged"] else None,
        "disagreement": disagreement(case, raw) if models > 1 else None,
        "mean_average_precision": means,
        "class_precision": raw["average_precision"][MEASURED],
    }
