"""Samples of a node over the time of a test, taken by a background thread and kept in bounded memory."""

from collections.abc import Callable, Sequence
from itertools import pairwise
from threading import Event, Thread

from hpcai import clock
from hpcai.machine.node_sensors import NAMES, SHARES, Values

LEAST = 0.25  # seconds between two samples
SHARE = 0.01  # of the elapsed time between two samples
KEPT = 200
MILLISECONDS, DIGITS = 3, 4  # decimal places kept of seconds and of shares


def pause(elapsed: float, longest: float) -> float:
    """Seconds until the next sample, `elapsed` seconds after the first; `longest` is at least LEAST."""
    return min(longest, max(LEAST, SHARE * elapsed))


class Series:
    """Samples of a node with their end times; beyond KEPT samples, neighbours are merged."""

    def __init__(self) -> None:
        self.count = 0
        self.interval = 0.0  # seconds, the longest
        self.maximum: Values = (None,) * len(NAMES)
        self._times = [0.0]
        self._values: list[Values] = []

    @property
    def seconds(self) -> float:
        return self._times[-1]

    def add(self, seconds: float, values: Values) -> None:
        """Add a sample that ends `seconds` after the beginning and covers the time since the last sample."""
        seconds = round(seconds, MILLISECONDS)
        if seconds <= self.seconds:
            return
        values = rounded(values)
        self.maximum = tuple(map(_larger, self.maximum, values)) if self.count else values
        self.interval = max(self.interval, round(seconds - self.seconds, MILLISECONDS))
        self.count += 1
        self._times.append(seconds)
        self._values.append(values)
        if len(self._values) > KEPT:
            self._merge()

    def _merge(self) -> None:
        """Merge the two neighbours with the shortest span, so that the samples stay evenly spread."""
        times, values = self._times, self._values
        index = min(range(len(values) - 1), key=lambda i: times[i + 2] - times[i])
        spans = [times[index + 1] - times[index], times[index + 2] - times[index + 1]]
        pairs = zip(values[index], values.pop(index + 1), strict=True)
        values[index] = tuple(mean(pair, spans) for pair in pairs)
        del times[index + 1]

    def rows(self) -> list[list[float | None]]:
        """One list a sample: seconds, then the quantities of NAMES."""
        return [[time, *rounded(values)] for time, values in zip(self._times[1:], self._values, strict=True)]


def means(rows: Sequence[Sequence[float | None]]) -> Values:
    """Means of such rows weighted by time; None for a quantity that a row lacks, or without rows."""
    ends = [0.0, *(row[0] or 0.0 for row in rows)]
    spans = [end - begin for begin, end in pairwise(ends)]
    return tuple(mean([row[column] for row in rows], spans) for column in range(1, len(NAMES) + 1))


def mean(values: Sequence[float | None], spans: Sequence[float]) -> float | None:
    """Mean weighted by time; None if a value is missing, or without values."""
    known = [value for value in values if value is not None]
    if len(known) < len(values) or not known:
        return None
    return sum(value * span for value, span in zip(known, spans, strict=True)) / sum(spans)


def _larger(one: float | None, other: float | None) -> float | None:
    return None if one is None or other is None else max(one, other)


def rounded(values: Values) -> Values:
    """Shares rounded to DIGITS decimal places, bytes and bytes per second to integers."""
    digits = (DIGITS if name in SHARES else None for name in NAMES)
    return tuple(value if value is None else round(value, each) for value, each in zip(values, digits, strict=True))


class Sampler:
    """Thread that takes samples until `end`."""

    def __init__(self, read: Callable[[], Values], longest: float) -> None:
        """`read` returns the values since its last call; `longest`: most seconds between two samples."""
        self._read, self._longest = read, longest
        self._series, self._ended, self._begun = Series(), Event(), clock.now()
        self._thread = Thread(target=self._run, name="telemetry", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._ended.wait(pause(clock.now() - self._begun, self._longest)):
            self._series.add(clock.now() - self._begun, self._read())

    def end(self) -> Series:
        """Stop the thread; its samples, and a last one unless too little time has passed since the one before."""
        self._ended.set()
        self._thread.join()
        elapsed = clock.now() - self._begun
        if not self._series.count or elapsed - self._series.seconds >= LEAST:
            self._series.add(elapsed, self._read())
        return self._series
