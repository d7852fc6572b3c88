"""RMS norm: every element against float64, and as a function of torch."""

from typing import Any

import numpy as np
import pytest
import torch
from sampled_parameters import one_in
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
