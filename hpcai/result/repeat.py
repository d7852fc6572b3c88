"""How far runs with different seeds lie apart (HPC AI500 V3, Fig. 2): statistics over the repetitions of a test."""

from collections.abc import Sequence
from statistics import mean, median, stdev
from typing import Any

Json = dict[str, Any]

QUANTITIES = {
    "ensemble": ("flops", "valid_flops", "quality", "epochs_to_quality"),
    "weather": ("flops", "valid_flops", "quality", "epochs_to_quality"),
    "nas": ("flops", "ops", "regulated_score", "quality", "operations_to_quality"),
}


def repeatability(tests: Sequence[Json]) -> list[Json]:
    """For each test that was repeated, the indices of its rows and the spread of its scores, in their order."""
    return [
        {
            "tests": [test["index"] for test in runs],
            **{name: spread(_values(runs, name)) for name in QUANTITIES[runs[0]["workload"]]},
        }
        for runs in repetitions(tests)
        if len(runs) > 1
    ]


def repetitions(tests: Sequence[Json]) -> list[list[Json]]:
    """Tests grouped by settings; the tests of a group differ in the seed alone.

    A second test with the settings and the seed of an earlier one repeats nothing and is left out.
    """
    found: dict[str, dict[object, Json]] = {}
    for test in tests:
        settings = {key: value for key, value in test["settings"].items() if key != "SEED"}
        runs = found.setdefault(repr((test["workload"], settings)), {})
        runs.setdefault(test["settings"].get("SEED"), test)
    return [[*runs.values()] for runs in found.values()]


def spread(values: Sequence[float]) -> Json | None:
    """Count, mean, median, extremes, and the coefficient of variation (sample deviation / mean); None of no values."""
    if not values:
        return None
    middle = mean(values)
    deviation = stdev(values) if len(values) > 1 else None
    return {
        "count": len(values),
        "mean": middle,
        "median": median(values),
        "min": min(values),
        "max": max(values),
        "cv": deviation / middle if deviation is not None and middle else None,
    }


def _values(runs: Sequence[Json], name: str) -> list[float]:
    """A score of each run; runs that did not reach the quality have no epochs to it."""
    return [test["scores"][name] for test in runs if test["scores"][name] is not None]
