"""Bandwidths of collectives, the model fitted to their times, and the failure of a row."""

from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sample_collectives import case_of, of_rows, raw_of, row, single_node
from sample_records import altered

from hpcai.formulas.collectives import CollectiveName, elements, size
from hpcai.results.alterations import changed
from hpcai.workloads.comm.checks import average_busbw, fits, rows, verdict
from hpcai.workloads.comm.record import Fit

FACTORS: dict[CollectiveName, float] = {
    "all_reduce": 1.75,
    "reduce_scatter": 0.875,
    "all_gather": 0.875,
    "broadcast": 1.0,
}


@pytest.mark.parametrize("collective", FACTORS)
def test_bandwidths_by_nccl_tests_factors(collective: CollectiveName) -> None:
    (found,) = rows(case_of(1, 8), of_rows(row(collective, 2**20, 8, seconds=0.5)))
    assert found.algbw == 2**21
    assert found.busbw == FACTORS[collective] * 2**21
    assert (found.test, found.verdict) == (3, "PASSED")


def test_reductions_and_roots_are_those_of_nccl_tests() -> None:
    case, raw = single_node()
    found = {(row.collective, row.type, row.redop, row.root) for row in rows(case, raw)}
    assert found == {
        ("all_reduce", "float", "sum", -1),
        ("reduce_scatter", "float", "sum", -1),
        ("all_gather", "float", "none", -1),
        ("broadcast", "float", "none", 0),
        ("hierarchical", "float", "sum", -1),
        ("torus", "float", "sum", -1),
    }


@pytest.mark.parametrize(
    ("collective", "count", "nbytes"),
    [("all_reduce", 250, 1000), ("broadcast", 250, 1000), ("all_gather", 35, 980), ("reduce_scatter", 35, 980)],
)
def test_sizes_and_counts_are_those_of_nccl_tests(collective: CollectiveName, count: int, nbytes: int) -> None:
    assert elements(collective, 1003, 7) == count
    assert size(collective, count, 7) == nbytes
    assert elements(collective, 27, 7) == (6 if nbytes == 1000 else 0)


def test_one_wrong_element_fails_its_row_and_the_test() -> None:
    case, raw = single_node()
    assert verdict(rows(case, raw)) == "PASSED"
    found = rows(case, altered(raw, changed("rows.5.wrong", 1)))
    assert [index for index, each in enumerate(found) if each.verdict == "FAILED"] == [5]
    assert verdict(found) == "FAILED"


def test_the_average_weights_each_size_equally() -> None:
    case = case_of(1, 2, (1024, 4096))
    raw = of_rows(row("broadcast", 1024, seconds=1e-3), row("broadcast", 4096, seconds=1e-3))
    assert average_busbw(rows(case, raw)) == pytest.approx((1024 + 4096) / 2 / 1e-3)


@given(
    st.floats(1e-7, 1e-2), st.floats(1e-12, 1e-7), st.lists(st.integers(0, 28), min_size=2, max_size=10, unique=True)
)
def test_known_latency_and_bandwidth_are_found(alpha: float, beta: float, powers: list[int]) -> None:
    case = case_of(1, 2, tuple(4 << power for power in powers))
    raw = raw_of(case, {"world": 2}, {}, lambda nbytes: alpha + beta * (nbytes // 8 * 8))
    whole = of_rows(*(each for each in raw.rows if each.nbytes % 8 == 0))
    for fit in fits(rows(case, whole)):
        if fit.alpha is None or fit.beta is None or fit.error is None:
            continue
        assert fit.error < 1e-6
        for power in powers:
            predicted = fit.alpha + fit.beta * (4 << power)
            assert predicted == pytest.approx(alpha + beta * (4 << power), rel=1e-3)


def test_the_fit_of_scattered_times_is_the_least_squares_one() -> None:
    seconds = {1024: 2.0, 2048: 2.0, 4096: 5.0}
    case = case_of(1, 2, tuple(seconds))
    (fit,) = fits(rows(case, of_rows(*(row("broadcast", n, seconds=s) for n, s in seconds.items()))))

    def cost(alpha: float, beta: float) -> float:
        return sum(((alpha + beta * n) / s - 1) ** 2 for n, s in seconds.items())

    assert fit.alpha is not None and fit.beta is not None
    best = cost(fit.alpha, fit.beta)
    for alpha in (0.99, 1, 1.01):
        for beta in (0.99, 1, 1.01):
            assert cost(alpha * fit.alpha, beta * fit.beta) >= best
    worst = max(abs((fit.alpha + fit.beta * n) / s - 1) for n, s in seconds.items())
    assert fit.error == pytest.approx(worst) and worst > 0.01


@pytest.mark.parametrize(("seconds", "zero"), [({1024: 4.0, 4096: 1.0}, "beta"), ({1024: 1.0, 4096: 8.0}, "alpha")])
def test_neither_parameter_becomes_negative(seconds: dict[int, float], zero: str) -> None:
    case = case_of(1, 2, tuple(seconds))
    (fit,) = fits(rows(case, of_rows(*(row("broadcast", n, seconds=s) for n, s in seconds.items()))))
    assert fit.alpha is not None and fit.beta is not None and fit.error is not None
    assert getattr(fit, zero) == 0 and 0 < fit.alpha + fit.beta < inf
    assert 0 < fit.error < 2


def test_sizes_that_hardly_differ_have_a_model_too() -> None:
    case = case_of(1, 2, (2**28, 2**28 - 4))
    (fit,) = fits(rows(case, of_rows(*(row("broadcast", n, seconds=0.5) for n in case["SIZES"]))))
    assert fit.alpha is not None and fit.beta is not None and fit.error is not None
    assert fit.alpha + fit.beta * 2**28 == pytest.approx(0.5) and fit.error < 1e-6


def test_fewer_than_two_passed_sizes_have_no_fit() -> None:
    case = case_of(1, 2, (1024, 1025, 4096))
    raw = of_rows(*(row("broadcast", nbytes) for nbytes in case["SIZES"]))
    assert fits(rows(case, raw))[0].alpha is not None
    nothing = Fit(collective="broadcast", scope="world", by="gloo", alpha=None, beta=None, error=None)
    assert fits(rows(case, altered(raw, changed("rows.-1.wrong", 3)))) == (nothing,)
