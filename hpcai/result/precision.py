"""What follows from the precision of a test: letter and bits, speed in the probe, what it gains and loses."""

from collections.abc import Sequence
from typing import Any

from hpcai.formulas import score
from hpcai.inputfile import Case

Json = dict[str, Any]

LETTERS = {"fp32": "S", "tf32": "T", "fp16": "H", "bf16": "B", "pure16": "P", "int8": "I"}
BITS = {"fp32": 32, "tf32": 19, "fp16": 16, "bf16": 16, "pure16": 16, "int8": 8}  # of what products are made of
# Where sums run in another order, a ReLU here and there decides the other way. With other kernels in every layer this
# changed up to 0.02 of a tensor's gradient in fp32 and 0.2 in bf16, compiled 0.04 and 0.3; with the same ones nothing.
NOISE = {"fp32": 1 / 16, "tf32": 1 / 8, "fp16": 1 / 8, "bf16": 1 / 4, "pure16": 1 / 4, "int8": 1 / 4}
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
