"""The second clock: pairs of readings, agreement, and steps in and outside of the timed region."""

import time
from collections.abc import Iterator
from itertools import count

import pytest

from hpcai import clock, second_clock
from hpcai.clock import Phases
from hpcai.formulas.clocks import CallTime, beside_steps, deviation, of_calls, unaccounted
from hpcai.second_clock import CLOSE, CallInterval, CallTimes, TimedRegion, moment, raw


def region() -> TimedRegion:
    return TimedRegion(lambda: None)


def test_the_two_clocks_agree_over_a_while() -> None:
    begin = moment(clock.now)
    time.sleep(0.2)
    end = moment(clock.now)
    assert deviation(end.first - begin.first, end.second - begin.second) < 0.1


def test_a_pair_that_was_interrupted_is_read_again() -> None:
    delays: Iterator[float] = iter([20 * CLOSE, 20 * CLOSE, 0.0])
    calls = count()

    def interrupted() -> float:
        next(calls)
        now = clock.now()
        time.sleep(next(delays, 0.0))
        return now

    found = moment(interrupted)
    assert next(calls) >= 3
    later = moment(clock.now)
    assert abs((later.first - found.first) - (later.second - found.second)) < 3 * CLOSE


@pytest.mark.parametrize(("first", "second", "agree"), [
    (100.0, 100.0, True), (100.09, 100.0, True), (50.0, 100.0, False), (100.2, 100.0, False), (0.0, 0.009, True),
    (0.0, 0.02, False),
])  # fmt: skip
def test_clocks_may_differ_by_a_thousandth_and_ten_milliseconds(first: float, second: float, agree: bool) -> None:
    assert (deviation(first, second) <= 1) == agree


def test_a_clock_that_is_read_around_the_other_may_have_been_interrupted() -> None:
    assert deviation(2.0, 1.0, parts=2) <= 1 < deviation(2.02, 1.0, parts=2)
    assert deviation(0.99, 1.0, parts=2) <= 1 < deviation(0.98, 1.0, parts=2)  # it cannot have less


def test_steps_may_miss_a_hundredth_and_interruptions() -> None:
    assert beside_steps(98.5, 100.0, parts=1) <= 1 < beside_steps(98.4, 100.0, parts=1)
    assert beside_steps(101.0, 100.0, parts=1) <= 1 < beside_steps(101.2, 100.0, parts=1)


def test_parts_may_miss_a_hundredth() -> None:
    assert unaccounted(99.5, 100.0) <= 1 < unaccounted(98.0, 100.0)
    assert unaccounted(102.0, 100.0) > 1


def test_steps_are_counted_within_parts_and_outside_of_them() -> None:
    found = region()
    found.backward()
    with found.part():
        found.backward()
        found.update()
        time.sleep(0.01)
    found.update()
    assert (found.steps, found.outside, found.parts) == (1, 2, 1)
    begin = raw()
    with found.part():
        time.sleep(0.01)
    assert 0.02 <= found.seconds <= 0.01 + raw() - begin + 0.05


def test_phases_and_the_time_between_them_add_up() -> None:
    import torch

    phases, begin = Phases(torch.device("cpu")), clock.now()
    for name in ("training", "validation", "training"):
        with phases.measure(name):
            time.sleep(0.01)
        time.sleep(0.005)
    assert phases.seconds["training"] >= 0.02 and phases.between >= 0.01
    assert sum(phases.seconds.values()) + phases.between <= clock.now() - begin


def test_calls_are_timed_in_blocks_whose_first_stretch_counts_only_if_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr(second_clock, "raw", lambda: now)
    times = CallTimes()
    for block in ([(1, 9.0), (2, 4.0), (3, 11.0)], [(1, 9.0)], [(1, 1.0), (1, 2.0)]):
        times.block()
        for calls, seconds in block:
            times.handed(calls)
            times.begin()
            now += seconds
            times.end()
    assert times.seconds == 3.0  # of 3, 9 and 2 seconds


@pytest.mark.parametrize("calls", [1, 2, 5])
def test_an_interval_lasts_from_the_first_call_to_the_end_of_the_last_one(calls: int) -> None:
    made: list[int] = []
    interval = CallInterval()
    watched = interval.around([lambda number=number: made.append(number) for number in range(calls)])  # type: ignore[misc]
    before = raw()
    for call in watched:
        call()
        time.sleep(0.01)
    assert made == [*range(calls)] and 0.01 * (calls - 1) <= interval.seconds < raw() - before - 0.01


def test_times_of_calls_agree_by_their_median() -> None:
    sound, half, short = CallTime(1.01, 1.0), CallTime(0.5, 1.0), CallTime(8e-6, 6e-6, 10)
    assert of_calls([sound, half, sound]) <= 1 < of_calls([sound, half, half])
    assert of_calls([short]) <= 1 < of_calls([short._replace(calls=100)])
