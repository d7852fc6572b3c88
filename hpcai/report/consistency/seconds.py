"""What the seconds of the phases owe each other."""

import math
from typing import Any

from hpcai.inputfile import Case
from hpcai.report.consistency.rounding import at_most, elapsed
from hpcai.result.times import UP_TO_TRAINING

Json = dict[str, Any]

TICK = 0.011  # seconds: the operating system tells when a process began to its clock tick


def seconds(case: Case, raw: Json) -> dict[str, bool]:
    """Phases of the slowest rank, and the end of the first model's curve."""
    phases, end = raw["phases"], raw["curve"][-1]["seconds"]
    before = [phases.get(phase, 0) for phase in UP_TO_TRAINING]
    longest = max(phases["training"], phases["validation"])
    return {
        "phases >= 0": all(seconds >= 0 for seconds in phases.values()),
        "phase training > 0": phases["training"] > 0,
        "phase data wait <= training": at_most(phases["data wait"], phases["training"]),
        "phase start-up is the first test's": ("start-up" in phases) == (case.index == 1),
        "phase start-up >= what it includes": phases.get("start-up", math.inf) + TICK >= max(before),
        "the curve ends within training + validation": at_most(end, elapsed(raw)),
        "one model: the curve ends after training": case["GROUPS"] > 1 or at_most(longest, end),
    }
