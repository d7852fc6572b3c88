"""Learning rates: their begin, their end, and their course."""

from itertools import pairwise
from math import ceil, cos, isclose, pi

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcai.train.schedules import learning_rate

KINDS = ("cosine", "linear", "polynomial", "constant")
PEAK = 0.7

problems = st.integers(1, 300).flatmap(
    lambda steps: st.tuples(st.just(steps), st.integers(0, 64 * steps).map(lambda parts: parts / 64))
)


def rates(kind: str, steps: int, warmup: float) -> list[float]:
    return [learning_rate(kind, PEAK, step, steps, warmup) for step in range(steps)]


@given(problems, st.sampled_from(KINDS))
def test_rates_rise_once_and_stay_within_the_peak(problem: tuple[int, float], kind: str) -> None:
    steps, warmup = problem
    values, peak_step = rates(kind, steps, warmup), min(ceil(warmup), steps)
    rising, falling = values[:peak_step], values[peak_step:]
    assert all(0 < value <= PEAK for value in values)
    assert all(later > earlier for earlier, later in pairwise(rising))
    assert all(later <= earlier for earlier, later in pairwise(falling))
    assert all(value < PEAK for value in rising)
    if kind != "constant" and len(falling) > 1:
        assert falling[-1] < falling[0]


@given(problems)
def test_the_warm_up_is_a_line_through_zero_before_the_first_step(problem: tuple[int, float]) -> None:
    steps, warmup = problem
    for step, rate in enumerate(rates("cosine", steps, warmup)[: ceil(warmup)]):
        assert isclose(rate, PEAK * (step + 1) / (warmup + 1))


@pytest.mark.parametrize("kind", KINDS)
def test_the_step_after_a_whole_warm_up_has_the_peak(kind: str) -> None:
    assert learning_rate(kind, PEAK, 0, 100, 0) == PEAK
    assert learning_rate(kind, PEAK, 5, 100, 5) == PEAK
    assert learning_rate(kind, PEAK, 4, 100, 5) == pytest.approx(PEAK * 5 / 6)


def test_a_warm_up_of_a_fraction_of_a_step_is_used() -> None:
    # 2.5 steps: the line reaches the peak at step 2.5, where the half cosine begins
    values = rates("cosine", 10, 2.5)
    assert values[:3] == pytest.approx([PEAK / 3.5, PEAK * 2 / 3.5, PEAK * 3 / 3.5])
    assert values[3:] == pytest.approx([PEAK * 0.5 * (1 + cos(pi * (step - 2.5) / 7.5)) for step in range(3, 10)])


@pytest.mark.parametrize("kind", ["cosine", "linear", "polynomial"])
def test_the_rate_after_the_last_step_would_be_zero(kind: str) -> None:
    assert learning_rate(kind, PEAK, 90, 90, 8.25) == pytest.approx(0, abs=1e-15)
    assert learning_rate(kind, PEAK, 89, 90, 8.25) < PEAK * 2 / 81


def test_cosine_and_line_are_half_the_peak_in_the_middle() -> None:
    for kind in ("cosine", "linear"):
        assert learning_rate(kind, PEAK, 55, 100, 10) == pytest.approx(PEAK / 2)
        assert learning_rate(kind, PEAK, 32, 100, 10) + learning_rate(kind, PEAK, 78, 100, 10) == pytest.approx(PEAK)
    assert learning_rate("cosine", PEAK, 32, 100, 10) > learning_rate("linear", PEAK, 32, 100, 10)


def test_the_polynomial_is_the_square_of_the_line() -> None:
    line, parabola = (rates(kind, 100, 10) for kind in ("linear", "polynomial"))
    assert parabola[10:] == pytest.approx([rate**2 / PEAK for rate in line[10:]])
    assert parabola[:10] == line[:10]


@given(st.integers(2, 400), st.integers(0, 50))
def test_without_warm_up_the_rates_sum_to_half_of_constant_training(steps: int, warmup: int) -> None:
    # the mean of both curves is 1/2 by symmetry; the sum over steps has the peak once more than the symmetric sum
    total = steps + warmup
    for kind in ("cosine", "linear"):
        fallen = sum(rates(kind, total, warmup)[warmup:])
        assert fallen == pytest.approx(PEAK * (steps + 1) / 2)
    assert sum(rates("constant", total, warmup)[warmup:]) == pytest.approx(PEAK * steps)


def test_an_unknown_schedule_is_an_error() -> None:
    with pytest.raises(KeyError):
        learning_rate("exponential", PEAK, 10, 20, 0)
