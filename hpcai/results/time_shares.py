"""Shares of a test's time by phase and activity, and the spread over ranks."""

from hpcai.record.phases import Phases, PhaseShares
from hpcai.record.record import fields
from hpcai.record.training import BusySeconds, OperatorSeconds, TrainingRaw
from hpcai.record.training_scores import OperatorShares, TrainingShares

SHARED = tuple(field.name for field in fields(PhaseShares))  # phases that are not part of `training`
INCLUDED = SHARED[1 : SHARED.index("training")]  # phases that are part of `start_up`


def busy_spread(busy: BusySeconds) -> float:
    """(max - min) / mean of the ranks' busy seconds; 0 if no rank was busy."""
    return (busy.max - busy.min) / busy.mean if busy.mean > 0 else 0.0


def training_shares(raw: TrainingRaw) -> TrainingShares:
    """Shares of the mean rank's activities in the slowest rank's training time; idle ranks had finished before."""
    total, waiting = raw.phases.training, raw.waiting_seconds
    compute, exposed, data = (part / total for part in (raw.busy_seconds.mean, waiting.communication, waiting.data))
    return TrainingShares(
        compute=compute,
        exposed_communication=exposed,
        data_wait=data,
        idle=max(0.0, 1 - (compute + exposed + data)),
    )


def phase_shares(phases: Phases) -> PhaseShares:
    """Seconds of the slowest rank in each phase / their sum; start-up without the phases within it."""
    parts: dict[str, float | None] = {name: getattr(phases, name) for name in SHARED}
    if phases.start_up is not None:
        parts["start_up"] = max(0.0, phases.start_up - sum(parts[name] or 0.0 for name in INCLUDED))
    total = sum(filter(None, parts.values()))
    return PhaseShares(**{name: seconds and seconds / total for name, seconds in parts.items()})  # type: ignore[arg-type]


def operator_shares(seconds: OperatorSeconds) -> OperatorShares | None:
    """Shares of the profiled time; None where the profiler reported none."""
    parts: dict[str, float] = {field.name: getattr(seconds, field.name) for field in fields(OperatorSeconds)}
    total = sum(parts.values())
    return OperatorShares(**{name: part / total for name, part in parts.items()}) if total > 0 else None
