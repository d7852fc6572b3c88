"""Claims about the telemetry of a test, for all workloads."""

from collections.abc import Sequence
from itertools import pairwise
from math import isclose

from hpcai.claims.node_claims import OF_NODES, alike, sampled_of, series_of, values_of
from hpcai.machine.node_sensors import NAMES
from hpcai.machine.telemetry import LEAST, mean, means
from hpcai.record.checkpoints import Checkpoints
from hpcai.record.entry import Row
from hpcai.record.machine import KEPT_SAMPLES, Telemetry
from hpcai.results.alterations import appended, changed
from hpcai.results.claim import Claim, Subject

GPU_NAMES = ("gpus", "gpu_memory_bytes", "received_nvlink", "sent_nvlink")
MILLISECOND = 1e-3  # rounding of times


def _asked(subject: Subject) -> bool:
    return sampled_of(subject) is None or float(subject.entry.settings["TELEMETRY"]) > 0


def _gpus(subject: Subject) -> bool:
    sampled = sampled_of(subject)
    if sampled is None or subject.environment.accelerators:
        return True
    rows = [values_of(sampled.average), values_of(sampled.maximum), *(row[1:] for row in sampled.series)]
    places = [NAMES.index(name) for name in GPU_NAMES]
    return all(row[place] is None for row in rows for place in places)


def _count(subject: Subject) -> bool:
    sampled = sampled_of(subject)
    return sampled is None or _whole(sampled) or sampled.samples > len(sampled.series) == KEPT_SAMPLES


def _whole(sampled: Telemetry) -> bool:
    """Whether the series has every sample: above a limit neighbours are merged."""
    return sampled.samples == len(sampled.series)


def _interval(subject: Subject) -> bool:
    sampled = sampled_of(subject)
    if sampled is None or not _whole(sampled):
        return True
    ends = [0.0, *(row[0] or 0.0 for row in sampled.series)]
    return isclose(sampled.interval, max((b - a for a, b in pairwise(ends)), default=0.0), abs_tol=MILLISECOND / 2)


def _averages(subject: Subject) -> bool:
    """Of the nodes' samples, where those of all nodes are kept."""
    sampled = sampled_of(subject)
    kept = series_of(sampled) if sampled else []
    if sampled is None or not kept:
        return True
    over_nodes = [mean(column, [1.0] * len(kept)) for column in zip(*map(means, kept), strict=True)]
    return all(map(alike, over_nodes, values_of(sampled.average)))


def _maxima(subject: Subject) -> bool:
    """A quantity missing in a sample has no maximum, as it has no average."""
    sampled = sampled_of(subject)
    if sampled is None:
        return True
    average, maximum = values_of(sampled.average), values_of(sampled.maximum)
    kept = series_of(sampled)
    if not kept or not _whole(sampled) or any(len(node.series) == KEPT_SAMPLES for node in sampled.further):
        return [value is None for value in average] == [value is None for value in maximum]
    rows = [row for series in kept for row in series]
    return [_highest([row[column] for row in rows]) for column in range(1, len(NAMES) + 1)] == [*maximum]


def _highest(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return max(known) if known and len(known) == len(values) else None


def _spans(subject: Subject) -> bool:
    """Whether the series lasts until the end of the measured time of a row; tables have none.

    That of a resumed test begins where its last job began.
    """
    sampled, entry = sampled_of(subject), subject.entry
    kept: Checkpoints | None = getattr(entry.raw, "checkpoints", None)
    if (kept is not None and kept.resumed) or getattr(entry.raw, "resumed", None):
        return True
    if sampled is None or not sampled.series or not isinstance(entry, Row):
        return True
    return entry.seconds <= (sampled.series[-1][0] or 0.0) + LEAST


TELEMETRY = (
    *OF_NODES,
    Claim("telemetry: only where TELEMETRY > 0", _asked, changed("settings.TELEMETRY", 0.0)),
    Claim("telemetry: GPUs only where there are some", _gpus, changed("telemetry.average.gpus", 0.5)),
    Claim("telemetry: samples, of the series", _count, appended("telemetry.series", [1e6, *[None] * len(NAMES)])),
    Claim("telemetry: the interval, of the series", _interval, changed("telemetry.interval", 1e6)),
    Claim("telemetry: averages, of the series", _averages, changed("telemetry.average.memory_bytes", 1.0)),
    Claim("telemetry: maxima, of the series", _maxima, changed("telemetry.maximum.memory_bytes", 1.0)),
)
ROW_TELEMETRY = (
    *TELEMETRY,
    Claim("telemetry: the series spans what is timed", _spans, changed("seconds", 1e9)),
)
