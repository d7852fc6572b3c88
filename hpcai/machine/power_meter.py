"""Energy by the file of an external meter: lines of UTC time (ISO 8601) and watts, separated by a comma."""

from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import pairwise
from math import isfinite
from pathlib import Path

from hpcai.machine.energy_counters import NotCountedError

Sample = tuple[float, float]  # seconds since the beginning of the interval, watts


def joules_between(path: Path, begin: datetime, seconds: float) -> float:
    """Energy of the interval by the trapezoid rule, watts at its ends interpolated.

    NotCountedError if the file cannot be read or does not cover the interval.
    """
    earliest, latest, joules = None, 0.0, 0.0
    try:
        for one, other in pairwise(_samples(path, begin)):
            earliest, latest = one[0] if earliest is None else earliest, other[0]
            joules += _trapezoid(one, other, seconds)
    except (OSError, UnicodeDecodeError) as error:
        raise NotCountedError(f"{path}: {getattr(error, 'strerror', 'no text')}") from None
    if earliest is None or earliest > 0 or latest < seconds:
        raise NotCountedError(f"{path}: it does not cover the {seconds:.3f} s from {begin.isoformat()} on")
    return joules


def _samples(path: Path, begin: datetime) -> Iterator[Sample]:
    """The samples in order of time; the first line may be a header."""
    before = float("-inf")
    with path.open(encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            sample = _sample(line, begin)
            if sample is None and line.strip() and number > 1 or sample and sample[0] <= before:
                raise NotCountedError(f"{path}, line {number}: no later UTC time with watts")
            if sample:
                before = sample[0]
                yield sample


def _sample(line: str, begin: datetime) -> Sample | None:
    """A sample; None of a line that is none. A time without an offset is UTC."""
    time, _, watts = line.partition(",")
    try:
        instant, power = datetime.fromisoformat(time.strip()), float(watts)
    except ValueError:
        return None
    instant = instant if instant.tzinfo else instant.replace(tzinfo=UTC)
    return ((instant - begin).total_seconds(), power) if isfinite(power) and power >= 0 else None


def _trapezoid(one: Sample, other: Sample, seconds: float) -> float:
    """Energy between two samples, as far as it lies within the interval."""
    (begin, power), (end, _) = one, other
    left, right = max(begin, 0.0), min(end, seconds)
    slope = (other[1] - power) / (end - begin)
    middle = power + slope * ((left + right) / 2 - begin)
    return middle * (right - left) if right > left else 0.0
