"""What the precision of a test says about its probe and about steps that were left out."""

from typing import Any

from hpcai.formulas.precision import PRECISIONS
from hpcai.inputfile import Case

Json = dict[str, Any]

PASSES = 3  # of either precision at least, on each rank, of which the fastest counts


def precision(case: Case, raw: Json) -> dict[str, bool]:
    probe, phase, wanted = raw.get("probe"), raw["phases"].get("probe"), case["PRECISION"]
    steps, samples, ranks = raw["skipped_steps"], raw["skipped_samples"], case["DEGREE"]
    claims = {
        "probe if, and only if, PRECISION is not fp32": (probe is None) == (phase is None) == (wanted == "fp32"),
        "skipped_steps: in fp16 only": steps == 0 or PRECISIONS[wanted].scaled,
        "skipped_steps <= steps": 0 <= steps <= raw["steps"],
        "skipped_samples: those of skipped_steps": steps * ranks <= samples <= steps * ranks * case["BATCH"],
    }
    claims["wrong elements: counted in int8 only"] = ("wrong" in raw["residuals"]) == PRECISIONS[wanted].quantised
    claims["converted: products in 16 bits only"] = PRECISIONS[wanted].rounded or not raw["memory"]["converted"]
    return {**claims, **_probed(probe, phase or 0.0, wanted, raw["memory"])} if probe else claims


def _probed(probe: Json, phase: float, wanted: str, memory: Json) -> dict[str, bool]:
    times = (probe["fp32_seconds"], probe["seconds"])
    return {
        "probe: seconds > 0": min(times) > 0,
        "probe: within its phase": PASSES * max(times) <= phase,
        "probe: converted are 16 bits only": PRECISIONS[wanted].rounded or not probe["converted"],
        "probe: converted where the first rank converts": probe["converted"] or not memory["converted"],
        "probe: no GPU converts": not (probe["converted"] and memory["accelerated"]),
    }
