"""Where the time went: shares that add up to 1, and how far the ranks are apart."""

from collections.abc import Mapping
from typing import Any

Json = dict[str, Any]

TRAINING_PARTS = ("compute", "exposed communication", "data wait", "idle")
WITHIN_TRAINING = ("data wait", "exposed communication")  # phases that are part of `training`
# Phases that are part of `start-up`.
UP_TO_TRAINING = ("staging", "set-up", "choice", "residuals", "probe", "beside", "warm-up")


def times(raw: Json) -> Json:
    """The part of a test's scores that its seconds make."""
    return {
        "busy_spread": spread(raw["busy_seconds"]),
        "training_shares": training_shares(raw),
        "phase_shares": phase_shares(raw["phases"]),
        "operation_shares": operation_shares(raw["operation_seconds"]),
    }


def spread(busy: Mapping[str, Any]) -> float:
    """(max - min) / mean of the ranks' busy seconds; 0 where no rank was ever busy."""
    return (busy["max"] - busy["min"]) / busy["mean"] if busy["mean"] > 0 else 0.0


def training_shares(raw: Json) -> dict[str, float]:
    """What the mean rank did in the slowest rank's training time; idle is who had finished before."""
    total, waiting = raw["phases"]["training"], raw["waiting_seconds"]
    shares = [part / total for part in (raw["busy_seconds"]["mean"], waiting["communication"], waiting["data"])]
    return dict(zip(TRAINING_PARTS, [*shares, max(0.0, 1 - sum(shares))], strict=True))


def phase_shares(phases: Mapping[str, float]) -> dict[str, float]:
    """Seconds of the slowest rank in each phase over their sum; of the start-up what no other phase has."""
    parts = {phase: seconds for phase, seconds in phases.items() if phase not in WITHIN_TRAINING}
    if "start-up" in parts:
        parts["start-up"] = max(0.0, parts["start-up"] - sum(parts.get(phase, 0) for phase in UP_TO_TRAINING))
    total = sum(parts.values())
    return {phase: seconds / total for phase, seconds in parts.items()}


def operation_shares(seconds: Mapping[str, float]) -> dict[str, float] | None:
    """Shares of the profiled time; None where the profiler told none."""
    total = sum(seconds.values())
    return {kind: part / total for kind, part in seconds.items()} if total > 0 else None
