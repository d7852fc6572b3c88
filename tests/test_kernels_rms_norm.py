"""RMS norm: every element against float64, and as a function of torch."""

from typing import Any

import numpy as np
import pytest
import torch
from sampled_parameters import fast, one_in
from torch.nn import functional

from hpcai.kernels.arrays import aligned
from hpcai.kernels.operators import sequences
from hpcai.kernels.residual import worst
from hpcai.kernels.rms_norm import SPEC, Shape, numba_cpu, reference

EPS = 1e-6
SIZES = [(1000, 64), (7, 128), (1, 16), (333, 2048), (5, 80)]


def address(array: Any) -> int:
    return int(array.ctypes.data)


def by_kernel(g: Any, x: Any, weight: Any, threads: int) -> tuple[Any, Any, Any]:
    """y, dx and dweight."""
    y, dx, dweight, factors = np.full_like(x, np.nan), np.full_like(x, np.nan), np.empty_like(weight), np.empty(len(x))
    rows, factors = numba_cpu.Rows(*x.shape, EPS), factors.astype(x.dtype)
    one = x.dtype.type(1)
    numba_cpu.forward(rows, one, *map(address, (x, weight, y, factors)), threads)
    numba_cpu.backward(rows, one, *map(address, (g, x, weight, factors, dx, dweight)), threads)
    return y, dx, dweight


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("kind", one_in(2, ["float32", "float64"]))
@pytest.mark.parametrize(("count", "features"), SIZES)
def test_every_element_is_within_its_bound(count: int, features: int, kind: str, threads: int) -> None:
    generator = np.random.default_rng(count)
    scales = 10.0 ** generator.integers(-3, 4, (count, 1))
    g, x, weight = (aligned(each.astype(kind)) for each in (
        generator.standard_normal((count, features)),
        scales * generator.standard_normal((count, features)),
        generator.standard_normal(features),
    ))
    y, dx, dweight = by_kernel(g, x, weight, threads)
    wide: Any = [each.astype(np.longdouble) for each in (g, x, weight)]
    parts = [reference.compared(y, *wide[1:], EPS), *reference.compared_gradients(dx, dweight, *wide, EPS)]
    assert worst(parts) < np.finfo(kind).eps / np.finfo("float32").eps


def sum_by_kernel(kernel: Any, given: dict[str, Any], threads: int) -> dict[str, Any]:
    """total, y, dx and dweight of x + other, with `beside` added to dx."""
    x = given["x"]
    sizes = {"total": x, "y": x, "dx": x, "dweight": given["weight"], "factors": x[:, 0].copy()}
    made = {name: np.full_like(each, np.nan) for name, each in sizes.items()}
    at = {name: address(each) for name, each in {**given, **made}.items()}
    rows, one = kernel.Rows(*x.shape, EPS), x.dtype.type(1)
    added = kernel.Added(at["other"], at["total"])
    kernel.forward(rows, one, *(at[name] for name in ("x", "weight", "y", "factors")), threads, added)
    backwards = [at[name] for name in ("g", "total", "weight", "factors", "dx", "dweight")]
    kernel.backward(rows, one, *backwards, threads, at["beside"])
    return made


def drawn_sums(count: int, features: int, kind: str) -> dict[str, Any]:
    generator = np.random.default_rng(count)
    names = ("g", "x", "other", "beside")
    arrays = {name: generator.standard_normal((count, features)) for name in names}
    arrays["weight"] = generator.standard_normal(features)
    return {name: aligned(each.astype(kind)) for name, each in arrays.items()}


def worst_of_sums(given: dict[str, Any], made: dict[str, Any]) -> float:
    """The worst element / its bound; infinite unless the total is x + other, rounded once."""
    if not np.array_equal(made["total"], given["x"] + given["other"]):
        return np.inf
    wide: Any = [each.astype(np.longdouble) for each in (given["g"], made["total"], given["weight"])]
    beside = given["beside"].astype(np.longdouble)
    gradients = reference.compared_gradients(made["dx"], made["dweight"], *wide, EPS, beside)
    return worst([reference.compared(made["y"], *wide[1:], EPS), *gradients])


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("kind", one_in(2, ["float32", "float64"]))
@pytest.mark.parametrize(("count", "features"), SIZES)
def test_every_element_of_a_sum_and_its_norm_is_within_its_bound(
    count: int, features: int, kind: str, threads: int
) -> None:
    given = drawn_sums(count, features, kind)
    found = worst_of_sums(given, sum_by_kernel(numba_cpu, given, threads))
    assert found < np.finfo(kind).eps / np.finfo("float32").eps


@pytest.mark.parametrize("reads_the_sum", [True, False])
def test_a_sum_and_its_norm_are_as_torch_has_them(reads_the_sum: bool) -> None:
    x, other = (torch.randn(3, 50, 128, requires_grad=True) for _ in range(2))
    weight, g, beside = torch.randn(128, requires_grad=True), torch.randn(3, 50, 128), torch.randn(3, 50, 128)
    total, rows = sequences.added_norm(x, other, weight, EPS)
    right = functional.rms_norm(x + other, (128,), weight, EPS)
    assert torch.equal(total, x + other)

    def gradients(total: Any, rows: Any) -> Any:
        outputs, given = ((rows, total), (g, beside)) if reads_the_sum else ((rows,), (g,))
        return torch.autograd.grad(outputs, (x, other, weight), given)

    pairs = zip((rows, *gradients(total, rows)), (right, *gradients(x + other, right)), strict=True)
    for one, wanted in pairs:
        assert (one - wanted).abs().max() < 1e-5 * wanted.abs().max()


def test_a_sum_that_no_norm_is_taken_of_has_its_gradient() -> None:
    x, other = (torch.randn(3, 32, requires_grad=True) for _ in range(2))
    total, _ = sequences.added_norm(x, other, torch.ones(32), EPS)
    g = torch.randn(3, 32)
    assert all(torch.equal(found, g) for found in torch.autograd.grad(total, (x, other), g))


def test_sums_of_two_sizes_are_refused() -> None:
    with pytest.raises(RuntimeError, match="allowed: two of one size and type"):
        sequences.added_norm(torch.randn(3, 32), torch.randn(2, 32), torch.ones(32), EPS)


def test_rows_of_zeros_and_what_is_not_a_number_stay_so() -> None:
    x, weight = aligned(np.zeros((3, 32), np.float32)), aligned(np.ones(32, np.float32))
    x[1, 5] = np.nan
    y, _, _ = by_kernel(x, x, weight, 1)
    assert not y[[0, 2]].any() and np.isnan(y[1]).all()


def test_the_function_of_torch_is_as_torch_is() -> None:
    x, weight = torch.randn(3, 50, 128, requires_grad=True), torch.randn(128, requires_grad=True)
    g = torch.randn(3, 50, 128)
    found = sequences.rms_norm(x, weight, EPS)
    right = functional.rms_norm(x, (128,), weight, EPS)
    for one, other in zip(
        (found, *torch.autograd.grad(found, (x, weight), g)), (right, *torch.autograd.grad(right, (x, weight), g)),
        strict=True,
    ):
        assert (one - other).abs().max() < 1e-5 * other.abs().max()


def test_other_sizes_are_refused() -> None:
    with pytest.raises(RuntimeError, match="allowed: a weight a feature, in whole vectors"):
        sequences.rms_norm(torch.randn(3, 17), torch.ones(17), EPS)


def test_counts() -> None:
    assert SPEC.operations(Shape(10, 64)) == 4 * 640
    assert SPEC.nbytes(Shape(10, 64)) == 2 * 4 * 640


FAULTS = {
    "eps left out": ("square + rows.eps", "square"),
    "sum for mean": ("x + at, rows.features) / rows.features", "x + at, rows.features)"),
    "mean of gradients left out": ("type(one)(-mean * factor * factor * factor)", "type(one)(0.0)"),
    "weights left out": ("builder.fmul(builder.fmul(code.load(x, at), by), code.load(weight, at))",
                         "builder.fmul(code.load(x, at), by)"),
    "sums of the last thread lost": ("for thread in range(threads):", "for thread in range(threads - 1):"),
}


FAULTS_OF_SUMS = {
    "other left out": ("added = code.builder.fadd(*(code.load(each, at) for each in terms))",
                       "added = code.load(terms[0], at)"),
    "sum not normalised": ("return added, added", "return code.load(terms[0], at), code.load(terms[1], at)"),
    "row of the sum of another": ("x + at, other + at, rows", "x + at, other, rows"),
    "x normalised": ("_scale_row(factor, y + at, total + at,", "_scale_row(factor, y + at, x + at,"),
    "beside left out": ("if has_beside:", "if False:"),
    "row beside of another": ("own, beside + at, features", "own, beside, features"),
}


@pytest.mark.parametrize("fault", fast(["sum not normalised", "beside left out"], FAULTS_OF_SUMS))
def test_planted_fault_of_a_sum_is_detected(fault: str, tmp_path: Any) -> None:
    from altered_kernels import altered

    kernel, given = altered("rms_norm", tmp_path, *FAULTS_OF_SUMS[fault]), drawn_sums(64, 64, "float32")
    assert worst_of_sums(given, sum_by_kernel(kernel, given, 2)) > 1.0


@pytest.mark.exhaustive
@pytest.mark.parametrize("fault", FAULTS)
def test_planted_fault_is_detected(fault: str, tmp_path: Any) -> None:
    from altered_kernels import altered

    kernel = altered("rms_norm", tmp_path, *FAULTS[fault])
    generator = np.random.default_rng(1)
    g, x = (aligned(generator.standard_normal((64, 64)).astype(np.float32)) for _ in range(2))
    x *= np.float32(1e-3)
    weight = aligned(generator.standard_normal(64).astype(np.float32))
    y, dx, dweight, factors = (np.full_like(each, np.nan) for each in (x, x, weight, x[:, 0].copy()))
    rows, one = kernel.Rows(*x.shape, EPS), np.float32(1)
    kernel.forward(rows, one, *map(address, (x, weight, y, factors)), 2)
    kernel.backward(rows, one, *map(address, (g, x, weight, factors, dx, dweight)), 2)
    wide: Any = [each.astype(np.float64) for each in (g, x, weight)]
    parts = [reference.compared(y, *wide[1:], EPS), *reference.compared_gradients(dx, dweight, *wide, EPS)]
    assert worst(parts) > 1.0
