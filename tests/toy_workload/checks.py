"""From raw measurements of `[toy]` to its entry: checks and scores."""

from math import pi, sqrt

import numpy as np

from hpcai.formulas import eligibility, score
from hpcai.inputfile import Case
from hpcai.record.check_declarations import CheckDeclaration
from hpcai.record.entry import Check, Operations
from hpcai.results.measured import Before, Measured
from hpcai.results.row import RULE, row, verdict
from hpcai.workloads.registry import quality_of
from toy_workload.record import ToyRaw, ToyRow, ToyScores

OPERATIONS = 4  # of a point: two squares, their sum, a comparison
DIFFERING = CheckDeclaration("sums of hits: differing ranks", "ranks whose sum is not that of their group's first rank")
ERRORS = CheckDeclaration("error of pi: standard errors", "error of pi / its standard deviation", limit=5.0)


def hits_of(case: Case, rank: int) -> int:
    """Points of a rank of the grid that lie within the quarter circle; a function of SEED alone."""
    draws = np.random.Generator(np.random.Philox(key=[case.seed, rank])).random((2, case["POINTS"]))
    return int(((draws**2).sum(0) <= 1).sum())


def build(case: Case, measured: Measured, before: Before) -> ToyRow:
    """The entry of a test."""
    raw: ToyRaw = measured.raw
    checks = _checks(raw)
    return row(
        ToyRow,
        case,
        measured,
        n=raw.points,
        nb=case["POINTS"],
        seconds=raw.seconds,
        operations=_operations(raw),
        checks=checks,
        scores=_scores(case, raw),
        eligible=eligibility.without_rules(verdict(checks) == "PASSED"),
    )


def _operations(raw: ToyRaw) -> Operations:
    whole = OPERATIONS * raw.points
    return Operations(rule=RULE, per_sample=OPERATIONS, credited=whole, skipped=0, executed=whole)


def _error(raw: ToyRaw) -> float:
    return abs(4 * sum(raw.hits) / raw.points - pi)


def _scores(case: Case, raw: ToyRaw) -> ToyScores:
    return ToyScores(
        flops=score.flops(OPERATIONS * raw.points, raw.seconds),
        quality=_error(raw),
        target=case["GOAL"],
        reached=quality_of(case.workload).reached(_error(raw), case["GOAL"]),
        points_per_second=raw.points / raw.seconds,
    )


def _checks(raw: ToyRaw) -> tuple[Check, ...]:
    deviation = sqrt(pi * (4 - pi) / raw.points)
    return (
        DIFFERING.of(raw.differing_ranks),
        ERRORS.of(_error(raw) / deviation),
    )
