"""The scores of a test, from its raw measurements and what was measured before it."""

from collections.abc import Sequence
from typing import Any

from hpcai.formulas import score
from hpcai.inputfile import Case
from hpcai.result import beside, choice
from hpcai.result.loading import loading
from hpcai.result.memory import memory
from hpcai.result.precision import gains
from hpcai.result.quality import qualities
from hpcai.result.roofline import under_roofline
from hpcai.result.times import times

Json = dict[str, Any]


def scores(case: Case, raw: Json, rate: float, earlier: Sequence[Json], tables: Sequence[Json]) -> Json:
    models, target = case["GROUPS"], raw["target"]
    found = qualities(case, raw)
    quality = found["quality"]
    reached = raw["reached_models"] == models
    return {
        "flops": rate,
        "valid_flops": score.valid_flops(rate, quality, target, case["PENALTY"]),
        **found,
        "target": target,
        "reached": quality >= target,
        "time_to_quality": raw["reached_seconds_max"] if reached else None,
        "time_to_quality_mean": raw["reached_seconds_sum"] / models if reached else None,
        "epochs_to_quality": raw["reached_epochs_max"] if reached else None,
        "epochs_to_quality_mean": raw["reached_epochs_sum"] / models if reached else None,
        "efficiency": efficiency(case, rate, earlier),
        **gains(case, raw, rate, quality, earlier),
        "images_per_second": raw["samples"] / raw["phases"]["training"],
        **memory(raw),
        **times(raw),
        **loading(case, raw),
        **staging(raw),
        **beside.pace(raw),
        **choice.ours(raw),
        **under_roofline(case, raw, rate, tables),
    }


def staging(raw: Json) -> Json:
    """Bytes per second that all nodes together copied; nothing where none were to be copied."""
    copy = raw.get("staging")
    return {"staging_rate": copy["bytes"] / copy["seconds"]} if copy else {}


def efficiency(case: Case, rate: float, earlier: Sequence[Json]) -> float:
    """Against the first test that differs in the grid alone; 1 for that test itself."""
    grid = ("GROUPS", "DEGREE", "MAPPING")
    same = {key: value for key, value in case.settings.items() if key not in grid}
    for test in earlier:
        alike = test["workload"] == case.workload and same.items() <= test["settings"].items()
        if alike and test["scores"]["flops"] > 0:
            ranks = test["p"] * test["q"]
            return score.efficiency(rate, case["GROUPS"] * case["DEGREE"], test["scores"]["flops"], ranks)
    return 1.0
