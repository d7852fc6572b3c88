"""Samples of nodes at common times: a sample holds since the one before it, so that intervals have weighted means."""

from collections.abc import Iterator, Sequence
from itertools import pairwise

from hpcai.machine.node_sensors import Values
from hpcai.machine.telemetry import MILLISECONDS, mean, rounded

Row = Sequence[float | None]  # seconds, then the quantities


def common_times(seconds: float, points: int) -> list[float]:
    """Ends of so many equal intervals from 0 to `seconds`, rounded as the times of samples are."""
    return [round(seconds * number / points, MILLISECONDS) for number in range(1, points + 1)]


def resampled(rows: Sequence[Row], ends: Sequence[float]) -> list[Values]:
    """Means of such rows, weighted by time, in the intervals from 0 that end at `ends`, in increasing order.

    None for a quantity that a row within the interval lacks. The rows last until the last end at least.
    """
    return [_mean([*_within(rows, begin, end)]) for begin, end in pairwise([0.0, *ends])]


def _within(rows: Sequence[Row], begin: float, end: float) -> Iterator[tuple[Row, float]]:
    """The rows that overlap an interval, and for how long."""
    before = 0.0
    for row in rows:
        span = min(end, row[0] or 0.0) - max(begin, before)
        if span > 0:
            yield row, span
        before = row[0] or 0.0


def _mean(parts: Sequence[tuple[Row, float]]) -> Values:
    spans = [span for _, span in parts]
    return rounded(tuple(mean(column, spans) for column in [*zip(*(row for row, _ in parts), strict=True)][1:]))
