"""Repetitions of a test with other seeds: a row for each, then mean and coefficient of variation."""

from collections.abc import Sequence
from statistics import mean, stdev

from hpcai.record.entry import Row
from hpcai.study.figure import Cell

SEEDS = ("SEED", "REPEAT")
PERCENT = 100.0


def over_seeds(
    tests: Sequence[Row], values: Sequence[float | None]
) -> tuple[tuple[tuple[Cell, ...], ...], tuple[tuple[float, float], ...]]:
    """Rows of a table, and the points of the tests that have a value."""
    seeds = [int(str(test.settings["SEED"])) for test in tests]
    known = [value for value in values if value is not None]
    spread = PERCENT * stdev(known) / mean(known) if len(known) > 1 and mean(known) else None
    rows = [(str(seed), value) for seed, value in zip(seeds, values, strict=True)]
    ends = [("mean", mean(known) if known else None), ("coefficient of variation, %", spread)]
    points = [(float(seed), value) for seed, value in zip(seeds, values, strict=True) if value is not None]
    return (*rows, *ends), tuple(points)
