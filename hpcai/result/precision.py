"""What follows from the precision of a test: speed in the probe, what it gains and loses."""

from collections.abc import Sequence
from typing import Any

from hpcai.formulas import score
from hpcai.inputfile import Case

Json = dict[str, Any]

STUDIED = ("PRECISION", "WIRE", "COMPILE", "KERNELS")


def gains(case: Case, raw: Json, rate: float, quality: float, earlier: Sequence[Json]) -> Json:
    """Speed in the probe, and speed-up and quality difference; each None where there is nothing to compare with."""
    first = _first(case, earlier)
    return {
        "precision_speed": speed(raw),
        "speedup": score.speedup(rate, first["scores"]["flops"]) if first else None,
        "quality_difference": quality - first["scores"]["quality"] if first else None,
    }


def speed(raw: Json) -> float | None:
    """How many times as fast as fp32 the precision was in the probe; None for fp32 itself."""
    probe = raw.get("probe")
    return probe["fp32_seconds"] / probe["seconds"] if probe else None


def emulated(raw: Json) -> bool:
    """Whether the precision was slower than fp32 in the probe, or computed in fp32 from and to 16 bits."""
    return "probe" in raw and (raw["probe"]["converted"] or raw["probe"]["seconds"] > raw["probe"]["fp32_seconds"])


def _first(case: Case, earlier: Sequence[Json]) -> Json | None:
    """The first test before this one that differs from it in what is studied, and in nothing else."""
    same = {key: value for key, value in case.settings.items() if key not in STUDIED}
    alike = (test for test in earlier if test["workload"] == case.workload and same.items() <= test["settings"].items())
    return next((test for test in alike if test["scores"]["flops"] > 0), None)
