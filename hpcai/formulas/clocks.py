"""Agreement of two clocks, and of the parts of a time with the whole."""

from collections.abc import Iterable
from math import inf
from statistics import median_low
from typing import NamedTuple

SHARE, LEAST = 1e-3, 0.01  # two clocks may differ by this share of the time, and by these seconds
CALLS, READINGS = 0.02, 2e-5  # share of the time of a call, and seconds between readings before and after calls
UNACCOUNTED = 0.01  # share of a time that its parts may miss or count twice, and as many seconds
INTERRUPTED = 0.5  # seconds that a busy machine may take a process its processor, at the ends of a part of a time


def deviation(first: float, second: float, parts: int = 0) -> float:
    """|first - second| / what is allowed, of seconds by two clocks; at most 1 where they agree.

    parts: of the time, around which the first clock was read before and after the second; the first may have more
    seconds then. 0 where they were read at once.
    """
    return _difference(first, second, SHARE * abs(second) + LEAST, parts)


def _difference(outer: float, inner: float, allowed: float, parts: int) -> float:
    """|outer - inner| / what is allowed; the outer time may have interruptions that the inner one has not."""
    return abs(outer - inner) / (allowed + INTERRUPTED * parts * (outer > inner))


class CallTime(NamedTuple):
    """Seconds of a call by two clocks, and how many calls were timed at once; inf where they took milliseconds."""

    first: float
    second: float
    calls: float = inf


def of_calls(times: Iterable[CallTime]) -> float:
    """Lower median of |first - second| / what is allowed: single calls may be disturbed between two readings."""
    return median_low(abs(each.first - each.second) / (CALLS * each.second + READINGS / each.calls) for each in times)


def unaccounted(parts: float, whole: float) -> float:
    """|parts - whole| / what is allowed, of the summed seconds of parts and those of the whole."""
    return abs(parts - whole) / (UNACCOUNTED * (abs(whole) + 1))


def beside_steps(steps: float, whole: float, parts: int) -> float:
    """|steps - whole| / what is allowed, of the summed seconds of steps and those of the training, in so many parts."""
    return _difference(whole, steps, UNACCOUNTED * (abs(whole) + 1), parts)
