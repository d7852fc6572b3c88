"""Samples at common times: exact on known series."""

import pytest

from hpcai.machine.node_sensors import NAMES
from hpcai.machine.resampling import common_times, resampled

Row = list[float | None]


def row(seconds: float, share: float | None, nbytes: float | None = 0) -> Row:
    """A sample of processors and memory; the rest is unknown."""
    return [seconds, share, nbytes, *[None] * (len(NAMES) - 2)]


SERIES = [row(1.0, 0.0, 100), row(3.0, 1.0, 400), row(4.0, 0.5, 100)]


def shares(rows: list[Row], ends: list[float]) -> list[float | None]:
    return [values[0] for values in resampled(rows, ends)]


def test_equal_intervals_end_at_the_end() -> None:
    assert common_times(1.0, 4) == [0.25, 0.5, 0.75, 1.0]
    assert common_times(1.0, 3) == [0.333, 0.667, 1.0]
    assert common_times(0.0, 0) == []


def test_means_are_weighted_by_time() -> None:
    assert shares(SERIES, [4.0]) == [0.625]
    assert shares(SERIES, [2.0, 4.0]) == [0.5, 0.75]
    assert [values[1] for values in resampled(SERIES, [2.0, 4.0])] == [250, 250]
    assert shares(SERIES, [0.5, 1.0, 1.5, 3.5]) == [0.0, 0.0, 1.0, 0.875]


def test_the_nodes_own_times_give_its_own_samples() -> None:
    ends = [1.0, 3.0, 4.0]
    assert [[end, *values] for end, values in zip(ends, resampled(SERIES, ends), strict=True)] == SERIES


def test_what_is_after_the_last_end_does_not_count() -> None:
    assert shares([*SERIES, row(9.0, 1.0)], [4.0]) == [0.625]


def test_an_interval_with_an_unknown_sample_is_unknown() -> None:
    rows = [row(1.0, 0.5), row(2.0, None), row(3.0, 0.5)]
    assert shares(rows, [1.0, 2.0, 3.0]) == [0.5, None, 0.5]
    assert shares(rows, [0.75, 1.5, 2.25, 3.0]) == [0.5, None, None, 0.5]


@pytest.mark.parametrize("points", [1, 7, 40, 200])
def test_the_mean_over_all_time_stays(points: int) -> None:
    rows = [row(0.03 * number, (number % 7) / 7) for number in range(1, 201)]
    found = shares(rows, common_times(6.0, points))
    known = [share for share in found if share is not None]
    assert len(known) == points
    expected = sum(float(each[1] or 0) for each in rows) / len(rows)
    assert sum(known) / points == pytest.approx(expected, abs=2e-3)
