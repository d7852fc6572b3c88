"""Repeatability: statistics over runs with different seeds (HPC AI500 V3, Fig. 2)."""

from collections.abc import Sequence
from statistics import mean, median, stdev

from hpcai.record.entry import Row
from hpcai.record.result import Repeatability, Spread
from hpcai.workloads.registry import workload


def repeatability(tests: Sequence[Row]) -> tuple[Repeatability, ...]:
    """The numbers of the rows of each repeated test, and the spread of its scores."""
    return tuple(
        Repeatability(
            tests=tuple(test.index for test in runs),
            spreads={name: spread(_values(runs, name)) for name in workload(runs[0].workload).repeated},
        )
        for runs in repetitions(tests)
        if len(runs) > 1
    )


def repetitions(tests: Sequence[Row]) -> list[list[Row]]:
    """Tests grouped by settings; the tests of a group differ in the seed alone.

    A second test with the settings and the seed of an earlier one repeats nothing and is left out.
    """
    found: dict[str, dict[object, Row]] = {}
    for test in tests:
        settings = {key: value for key, value in test.settings.items() if key != "SEED"}
        found.setdefault(repr((test.workload, settings)), {}).setdefault(test.settings.get("SEED"), test)
    return [[*runs.values()] for runs in found.values()]


def spread(values: Sequence[float]) -> Spread | None:
    """Statistics of values; None of no values. The coefficient of variation is sample deviation / mean."""
    if not values:
        return None
    middle = mean(values)
    deviation = stdev(values) if len(values) > 1 else None
    return Spread(
        count=len(values),
        mean=middle,
        median=median(values),
        min=min(values),
        max=max(values),
        cv=deviation / middle if deviation is not None and middle else None,
    )


def _values(runs: Sequence[Row], name: str) -> list[float]:
    """A score of each run; a run that did not reach the quality has no epochs to quality."""
    found = (getattr(test.scores, name) for test in runs)
    return [value for value in found if value is not None]
