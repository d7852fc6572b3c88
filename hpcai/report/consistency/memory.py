"""What the bytes of a test's ranks owe each other."""

from math import prod
from typing import Any

from hpcai.inputfile import Case

Json = dict[str, Any]


def memory(case: Case, raw: Json) -> dict[str, bool]:
    used = raw["memory"]
    return {
        "memory: 0 < baseline_bytes": used["baseline_bytes"] > 0,
        "memory: baseline_bytes < planned_bytes": used["accelerated"] or used["baseline_bytes"] < used["planned_bytes"],
        "memory: peak_bytes > 0": used["peak_bytes"] > 0,
        "memory: device_peak_bytes only where accelerated": (used["device_peak_bytes"] > 0) == used["accelerated"],
        "memory: picture_bytes of the dataset's shape": used["picture_bytes"] == prod(raw["dataset"]["shape"]),
        "memory: data_bytes hold whole samples": _whole(case, raw),
    }


def _whole(case: Case, raw: Json) -> bool:
    """Data kept in memory are all samples with their labels, once or, where they were staged, twice; else none."""
    used, data = raw["memory"], raw["dataset"]
    samples = data["training_samples"] + data["validation_samples"]
    once = samples * (used["picture_bytes"] + 8)
    return bool(used["data_bytes"] in (0, once if case["STAGE"] == "none" else 2 * once))
