"""Agreement of two clocks, and of the parts of a time with the whole."""

from collections.abc import Iterable
from math import inf
from statistics import median_low
from typing import NamedTuple

SHARE, LEAST = 1e-3, 0.01  # two clocks may differ by this share of the time, and by these seconds
CALLS, READINGS = 0.02, 2e-5  # share of the time of a call, and seconds between readings before and after calls
UNACCOUNTED = 0.01  # share of a time that its parts may miss or count twice, and as many seconds
INTERRUPTED = 0.03  # seconds that a busy machine may take a process its processor, between readings of both clocks
LAST = 0.1  # seconds that may pass between the last step of a part and the end of the part


def deviation(first: float, second: float, parts: int = 0) -> float:
    """|first - second| / what is allowed, of seconds by two clocks; at most 1 where they agree.

    parts: of the time, at whose ends the clocks were read one after the other; 0 where they were read at once.
    """
    return abs(first - second) / (SHARE * abs(second) + LEAST + INTERRUPTED * parts)


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
    return abs(steps - whole) / (UNACCOUNTED * (abs(whole) + 1) + LAST * parts)
