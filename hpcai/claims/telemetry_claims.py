"""Claims about the telemetry of a test, for all workloads."""

from itertools import pairwise
from math import isclose

from hpcai.machine.node_sensors import NAMES
from hpcai.machine.telemetry import LEAST, means
from hpcai.record.entry import Row
from hpcai.record.machine import KEPT_SAMPLES, Quantities, Telemetry
from hpcai.results.alterations import appended, changed
from hpcai.results.claim import Claim, Subject

MILLISECOND = 1e-3  # rounding of times
Values = tuple[float | None, ...]


def _sampled(subject: Subject) -> Telemetry | None:
    telemetry: Telemetry | None = subject.entry.telemetry
    return telemetry


def _values(quantities: Quantities) -> Values:
    return tuple(getattr(quantities, name) for name in NAMES)


def _asked(subject: Subject) -> bool:
    return _sampled(subject) is None or float(subject.entry.settings["TELEMETRY"]) > 0


def _nodes(subject: Subject) -> bool:
    sampled = _sampled(subject)
    return sampled is None or sampled.nodes == subject.environment.nodes


def _gpus(subject: Subject) -> bool:
    sampled = _sampled(subject)
    if sampled is None or subject.environment.accelerators:
        return True
    rows = [_values(sampled.average), _values(sampled.maximum), *(row[1:] for row in sampled.series)]
    first = NAMES.index("gpus")  # and all that follow
    return all(value is None for row in rows for value in row[first:])


def _count(subject: Subject) -> bool:
    sampled = _sampled(subject)
    return sampled is None or _whole(sampled) or sampled.samples > len(sampled.series) == KEPT_SAMPLES


def _whole(sampled: Telemetry) -> bool:
    """Whether the series has every sample: above a limit neighbours are merged."""
    return sampled.samples == len(sampled.series)


def _interval(subject: Subject) -> bool:
    sampled = _sampled(subject)
    if sampled is None or not _whole(sampled):
        return True
    ends = [0.0, *(row[0] or 0.0 for row in sampled.series)]
    return isclose(sampled.interval, max((b - a for a, b in pairwise(ends)), default=0.0), abs_tol=MILLISECOND / 2)


def _averages(subject: Subject) -> bool:
    sampled = _sampled(subject)
    if sampled is None or sampled.nodes > 1:
        return True
    return all(map(_alike, means(sampled.series), _values(sampled.average)))


def _alike(one: float | None, other: float | None) -> bool:
    return one is other if one is None or other is None else isclose(one, other, rel_tol=1e-12)


def _maxima(subject: Subject) -> bool:
    """A quantity missing in a sample has no maximum, as it has no average."""
    sampled = _sampled(subject)
    if sampled is None:
        return True
    average, maximum = _values(sampled.average), _values(sampled.maximum)
    if sampled.nodes > 1 or not _whole(sampled):
        return [value is None for value in average] == [value is None for value in maximum]
    return [_highest(sampled, column) for column in range(1, len(NAMES) + 1)] == list(maximum)


def _highest(sampled: Telemetry, column: int) -> float | None:
    values = [row[column] for row in sampled.series]
    known = [value for value in values if value is not None]
    return max(known) if known and len(known) == len(values) else None


def _spans(subject: Subject) -> bool:
    """Whether the series lasts until the end of the measured time of a row; tables have none."""
    sampled, entry = _sampled(subject), subject.entry
    if sampled is None or not sampled.series or not isinstance(entry, Row):
        return True
    return entry.seconds <= (sampled.series[-1][0] or 0.0) + LEAST


TELEMETRY = (
    Claim("telemetry: only where TELEMETRY > 0", _asked, changed("settings.TELEMETRY", 0.0)),
    Claim("telemetry: nodes of the job", _nodes, changed("telemetry.nodes", 7)),
    Claim("telemetry: GPUs only where there are some", _gpus, changed("telemetry.average.gpus", 0.5)),
    Claim("telemetry: samples, of the series", _count, appended("telemetry.series", [1e6, None, None, None, None])),
    Claim("telemetry: the interval, of the series", _interval, changed("telemetry.interval", 1e6)),
    Claim("telemetry: averages of one node, of its series", _averages, changed("telemetry.average.memory_bytes", 1.0)),
    Claim("telemetry: maxima of one node, of its series", _maxima, changed("telemetry.maximum.memory_bytes", 1.0)),
)
ROW_TELEMETRY = (
    *TELEMETRY,
    Claim("telemetry: the series spans what is timed", _spans, changed("seconds", 1e9)),
)
