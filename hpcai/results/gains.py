"""Gains of a setting in a sweep: parallel efficiency, speed-up, quality difference, speed of a precision."""

from collections.abc import Collection, Iterator, Sequence

from hpcai.formulas import score
from hpcai.inputfile import Case
from hpcai.record.entry import Row
from hpcai.record.preflight import PrecisionProbe
from hpcai.results.lost_groups import lost_groups

GRID = ("GROUPS", "DEGREE", "MAPPING")
STUDIED = ("PRECISION", "WIRE", "ALLREDUCE", "COMPILE", "KERNELS")


def efficiency(case: Case, rate: float, before: Sequence[Row], name: str = "flops") -> float:
    """Rate of a rank relative to the first test that differs in the grid only; 1 for that test.

    `name`: of the score that the rate is.
    """
    first = next(comparable_tests(case, before, GRID), None)
    if first is None:
        return 1.0
    return score.efficiency(rate, case.credited_groups * case.degree, getattr(first.scores, name), first.p * first.q)


def speedup(case: Case, rate: float, before: Sequence[Row]) -> float | None:
    """FLOPS relative to the first test that differs in the studied KEYs only; None for that test."""
    first = next(comparable_tests(case, before, STUDIED), None)
    return score.speedup(rate, first.scores.flops) if first else None


def quality_difference(case: Case, quality: float, before: Sequence[Row]) -> float | None:
    """Quality minus that of the first comparable test; None for that test."""
    first = next(comparable_tests(case, before, STUDIED), None)
    return quality - first.scores.quality if first else None


def comparable_tests(case: Case, before: Sequence[Row], keys: Collection[str]) -> Iterator[Row]:
    """Earlier tests of the same workload that differ from this one in these KEYs only, and lost no group."""
    same = {key: value for key, value in case.settings.items() if key not in keys}
    for row in before:
        alike = row.workload == case.workload and same.items() <= row.settings.items()
        if alike and row.scores.flops > 0 and not lost_groups(row):
            yield row


def precision_speed(probe: PrecisionProbe | None) -> float | None:
    """Speed of the precision relative to fp32 in the probe; None for fp32."""
    return probe.fp32_seconds / probe.seconds if probe else None


def emulated(probe: PrecisionProbe | None) -> bool:
    """Whether the precision was slower than fp32 in the probe, or computed in fp32 from and to 16 bits."""
    return probe is not None and (probe.converted or probe.seconds > probe.fp32_seconds)
