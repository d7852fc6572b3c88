"""Energy by the file of an external meter: lines of a time (ISO 8601, with its offset) and watts, after a comma."""

from collections.abc import Iterator
from datetime import datetime
from itertools import pairwise
from math import isfinite
from pathlib import Path

from hpcai.machine.energy_counters import NotCountedError

MOST_SECONDS = 60.0  # between two samples of the interval
Sample = tuple[float, float]  # seconds since the beginning of the interval, watts


def joules_between(path: Path, begin: datetime, seconds: float) -> float:
    """Energy of the interval by the trapezoid rule, watts at its ends interpolated.

    NotCountedError if the file cannot be read, does not cover the interval, or has a gap of over MOST_SECONDS in it.
    """
    earliest, latest, joules = None, 0.0, 0.0
    try:
        if path.exists() and not path.is_file():  # to read a FIFO may take forever
            raise NotCountedError(f"{path}: no regular file")
        for one, other in pairwise(_samples(path, begin)):
            earliest, latest = one[0] if earliest is None else earliest, other[0]
            if one[0] < seconds and other[0] > 0 and (gap := other[0] - one[0]) > MOST_SECONDS:
                raise NotCountedError(f"{path}: {gap:.3f} s between two samples; allowed: {MOST_SECONDS:.0f} s at most")
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
            try:
                sample = _sample(line, begin)
            except TypeError:  # of two instants, one without an offset
                raise NotCountedError(f"{path}, line {number}: the time needs an offset, such as Z for UTC") from None
            if sample is None and line.strip() and number > 1 or sample and sample[0] <= before:
                raise NotCountedError(f"{path}, line {number}: no later UTC time with watts")
            if sample:
                before = sample[0]
                yield sample


def _sample(line: str, begin: datetime) -> Sample | None:
    """A sample; None of a line that is none. TypeError of a time without an offset."""
    time, _, watts = line.partition(",")
    try:
        instant, power = datetime.fromisoformat(time.strip()), float(watts)
    except ValueError:
        return None
    return ((instant - begin).total_seconds(), power) if isfinite(power) and power >= 0 else None


def _trapezoid(one: Sample, other: Sample, seconds: float) -> float:
    """Energy between two samples, as far as it lies within the interval."""
    (begin, power), (end, _) = one, other
    left, right = max(begin, 0.0), min(end, seconds)
    slope = (other[1] - power) / (end - begin)
    middle = power + slope * ((left + right) / 2 - begin)
    return middle * (right - left) if right > left else 0.0
