"""What the bytes of a test's ranks owe each other."""

from math import prod
from typing import Any

from hpcai.inputfile import Case

Json = dict[str, Any]

LABEL = 8  # bytes of a class number
PACKED_PICTURE = 3 * 256**2  # bytes of a packed picture
PACKED_SAMPLE = 2 * LABEL + 4  # bytes of its class, of all and by shard, and of its checksum


def sizes(used: Json) -> dict[str, bool]:
    """Of the ranks of any test that trains."""
    return {
        "memory: 0 < baseline_bytes": used["baseline_bytes"] > 0,
        "memory: baseline_bytes < planned_bytes": used["accelerated"] or used["baseline_bytes"] < used["planned_bytes"],
        "memory: peak_bytes > 0": used["peak_bytes"] > 0,
        "memory: device_peak_bytes only where accelerated": (used["device_peak_bytes"] > 0) == used["accelerated"],
    }


def used(case: Case, raw: Json) -> dict[str, bool]:
    return sizes(raw["memory"])


def memory(case: Case, raw: Json) -> dict[str, bool]:
    used = raw["memory"]
    return {
        **sizes(used),
        "memory: picture_bytes of the dataset's shape": used["picture_bytes"] == _picture(case, raw),
        "memory: data_bytes hold whole samples": _whole(case, raw),
        "memory: samples of the dataset": used["samples"] == raw["dataset"]["training_samples"],
    }


def _picture(case: Case, raw: Json) -> int:
    return PACKED_PICTURE if _packed(case) else prod(raw["dataset"]["shape"])


def _whole(case: Case, raw: Json) -> bool:
    """Data kept in memory are all samples with their labels, once or, where they were staged, twice; or none.

    Of packed pictures it is what tells them apart, of a limited set that of all the pictures it was chosen from.
    """
    used, data = raw["memory"], raw["dataset"]
    samples, copies = data["training_samples"] + data["validation_samples"], 1 if case["STAGE"] == "none" else 2
    if _packed(case):
        whole = copies * PACKED_SAMPLE * samples
        return bool(used["data_bytes"] >= whole if case["SAMPLES"] else used["data_bytes"] == whole)
    return bool(used["data_bytes"] in (0, copies * samples * (used["picture_bytes"] + LABEL)))


def _packed(case: Case) -> bool:
    return bool(case["DATASET"].startswith("imagenet:"))
