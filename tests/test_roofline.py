"""The roofline's arithmetic, by hand."""

import pytest

from hpcai.formulas import roofline


def test_an_all_reduce_sends_the_bytes_that_each_rank_lacks() -> None:
    assert [roofline.moved_in_all_reduce(1200, ranks) for ranks in (1, 2, 3, 4)] == [0, 1200, 1600, 1800]


def test_rates_of_sequential_work() -> None:
    """600 FLOP at 300 and 100 FLOP at 50 take 4 s."""
    rates = {"convolution": 300.0, "gemm": 50.0}
    assert roofline.combined({"convolution": 600, "gemm": 100}, rates) == 175.0
    assert roofline.combined({"convolution": 600, "gemm": 0}, {"convolution": 300.0, "gemm": None}) == 300.0


@pytest.mark.parametrize("rates", [{}, {"convolution": 300.0}, {"convolution": None, "gemm": 50.0}])
def test_work_with_an_unknown_rate_has_no_bound(rates: dict[str, float | None]) -> None:
    assert roofline.combined({"convolution": 600, "gemm": 100}, rates) is None


def test_no_work_has_no_rate() -> None:
    assert roofline.combined({"convolution": 0}, {"convolution": 300.0}) is None


def test_the_bound_is_the_lowest_one() -> None:
    bounds: dict[str, float | None] = {"compute": 90.0, "memory": 80.0, "communication": 70.0}
    assert roofline.attainable(bounds) == (70.0, "communication")
    assert roofline.attainable({**bounds, "communication": None}) == (80.0, "memory")
    assert roofline.attainable({**bounds, "memory": 100.0, "communication": None}) == (90.0, "compute")
    assert roofline.attainable({**bounds, "compute": None}) == (None, None)
    assert roofline.attainable({}) == (None, None)


def test_bounds_and_shares_of_unknown_values_are_none() -> None:
    assert roofline.bound(10e9, 25.0) == 250e9
    assert roofline.bound(None, 25.0) is None and roofline.bound(10e9, None) is None
    assert roofline.share(30.0, 60.0) == 0.5
    assert roofline.share(90.0, 60.0) == 1.5
    assert roofline.share(90.0, None) is None


def test_the_bandwidth_of_a_training_by_hand() -> None:
    """100 steps of 8 MB on 4 ranks in 3 s: each rank sends 12 MB a step."""
    assert roofline.bandwidth(12_000_000, 100, 3.0) == pytest.approx(400e6)
    assert roofline.bandwidth(0, 100, 3.0) == 0
