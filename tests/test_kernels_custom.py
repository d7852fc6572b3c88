"""The custom matrix product and convolution: every element against float64, for any shape, strides and threads."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
from provider_results import results_of
from sampled_parameters import one_in

from hpcai.kernels import conv2d, gemm
from hpcai.kernels.arithmetic import FP32, FP64, Arithmetic
from hpcai.kernels.check import check, draw
from hpcai.kernels.conv2d import numba_cpu as conv2d_custom
from hpcai.kernels.gemm import numba_cpu as gemm_custom
from hpcai.kernels.residual import ELEMENTWISE_LIMIT
from hpcai.kernels.spec import DIRECTIONS, FORWARD

TYPES = [FP32, FP64]
PRODUCTS = [(1, 1, 1), (13, 7, 31), (14, 16, 32), (15, 17, 33), (100, 500, 70), (3, 1000, 200), (257, 33, 65)]
PRODUCTS += [(300, 1500, 400), (30, 2100, 40)]
Shape = conv2d.Shape
LAYERS = [
    Shape(1, 1, 1, 1, 1, (1, 1)),
    Shape(2, 16, 8, 9, 24, (3, 3), (1, 1), (1, 1)),
    Shape(1, 3, 23, 17, 20, (7, 7), (2, 2), (3, 3)),  # few channels, whose taps are adjacent
    Shape(2, 64, 14, 14, 64, (3, 3), (2, 2), (1, 1)),
    Shape(3, 32, 7, 7, 64, (1, 1)),
    Shape(2, 32, 8, 8, 48, (1, 1), (2, 2)),  # input pixels that no output reads
    Shape(2, 24, 9, 11, 12, (3, 2), (2, 3), (1, 0), (2, 1), 2),
    Shape(1, 8, 12, 12, 8, (3, 3), (1, 1), (1, 1), (1, 1), 8),  # depth-wise
    Shape(3, 150, 9, 8, 150, (3, 5), (2, 1), (1, 2), (1, 1), 150),
    Shape(2, 20, 9, 9, 20, (3, 3), (1, 1), (4, 4), (3, 3), 20),
    Shape(1, 6, 9, 7, 6, (3, 3), (1, 1), (1, 1), (1, 1), 6),  # fewer channels than a vector has
    Shape(2, 24, 9, 11, 24, (5, 5), (2, 2), (2, 2), (1, 1), 24),
    Shape(2, 48, 7, 9, 48, (3, 3), (1, 1), (1, 1), (2, 1), 24),  # groups that divide a vector
    Shape(2, 48, 9, 21, 48, (3, 3), (1, 1), (1, 1), (1, 1), 12),
    Shape(2, 40, 9, 8, 40, (3, 5), (2, 1), (1, 2), (1, 2), 5),
    Shape(2, 32, 9, 9, 32, (1, 1), (2, 2), (0, 0), (1, 1), 8),
    Shape(1, 2, 5, 500, 4, (3, 3), (1, 1), (1, 1)),  # rows longer than a block
    Shape(2, 600, 5, 5, 40, (3, 3), (1, 1), (1, 1)),  # more channels than are multiplied at a time
    Shape(2, 8, 9, 9, 8, (2, 2), (3, 3)),
    Shape(2, 40, 9, 9, 8, (3, 3), (2, 2), (4, 4)),  # outputs that read padding only
    Shape(1, 4, 9, 9, 4, (3, 3), (2, 2), (1, 1), (2, 2)),
    # computed by sliding tiles: of one vector of filters, of two, and of both
    Shape(2, 16, 5, 32, 16, (3, 3), (1, 1), (1, 1)),
    Shape(2, 16, 9, 28, 32, (3, 3), (1, 1), (1, 1)),
    Shape(1, 32, 11, 31, 48, (3, 3), (2, 2), (1, 1)),
    Shape(1, 32, 12, 19, 64, (3, 3), (1, 1), (2, 2), (2, 2), 2),
    Shape(1, 64, 17, 40, 80, (5, 3), (3, 2), (1, 4)),
]


def worst(shape: Any, provider: Any, arithmetic: Arithmetic, threads: int) -> float:
    found = check(shape, partial(results_of, provider, threads=threads), "cpu", 7, DIRECTIONS, arithmetic)
    return max(residuals.elementwise for residuals in found)


@pytest.mark.parametrize("arithmetic", TYPES, ids=lambda arithmetic: arithmetic.name)
@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("size", PRODUCTS, ids=str)
def test_products_are_exact_to_rounding(size: tuple[int, int, int], threads: int, arithmetic: Arithmetic) -> None:
    shape = gemm.Shape(*size)
    value = worst(shape, gemm_custom, arithmetic, threads)
    assert value <= ELEMENTWISE_LIMIT


@pytest.mark.parametrize("arithmetic", one_in(2, TYPES), ids=lambda arithmetic: arithmetic.name)
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("shape", LAYERS, ids=str)
def test_convolutions_are_exact_to_rounding(shape: Shape, threads: int, arithmetic: Arithmetic) -> None:
    value = worst(shape, conv2d_custom, arithmetic, threads)
    assert value <= ELEMENTWISE_LIMIT


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("order", ["C", "F", "steps"])
@pytest.mark.parametrize(("alpha", "beta"), [(1.0, 0.0), (2.0, 1.0), (-0.5, 0.25)])
def test_products_of_matrices_with_any_strides(alpha: float, beta: float, order: str, kind: type) -> None:
    generator = np.random.default_rng(3)

    def made(rows: int, columns: int) -> Any:
        if order == "steps":
            return generator.standard_normal((2 * rows, 3 * columns)).astype(kind)[::-2, 1::3]
        return np.asarray(generator.standard_normal((rows, columns)).astype(kind), order=order)

    for m, n, k in ((5, 40, 70), (40, 5, 3), (29, 65, 400)):
        a, b, c = made(m, k), made(k, n), made(m, n)
        wanted = alpha * (a.astype(float) @ b.astype(float)) + beta * c.astype(float)
        if beta == 0:
            c[:] = np.nan
        gemm_custom.gemm(a, b, c, alpha, beta, threads=2)
        assert np.abs(c - wanted).max() <= 64 * np.finfo(kind).eps * k**0.5


def test_empty_matrices() -> None:
    for m, n, k in ((0, 3, 4), (3, 0, 4), (0, 0, 0)):
        gemm_custom.gemm(np.ones((m, k)), np.ones((k, n)), np.ones((m, n)))
    nothing, c = np.ones((3, 0)), np.full((3, 2), np.nan)
    gemm_custom.gemm(nothing, np.ones((0, 2)), c)
    assert (c == 0).all()
    gemm_custom.gemm(nothing, np.ones((0, 2)), c + 2, beta=0.5)


def test_memory_between_rows_is_not_written() -> None:
    for k in (0, 3):
        whole = np.full((3, 5), 77, np.int32)
        gemm_custom.gemm_bytes(np.zeros((3, k), np.int8), np.zeros((k, 4), np.int8), whole[:, :4])
        assert (whole[:, :4] == 0).all() and (whole[:, 4] == 77).all()
        floats = np.full((3, 50), 77.0)
        gemm_custom.gemm(np.ones((3, k)), np.ones((k, 49)), floats[:, :49])
        assert (floats[:, :49] == k).all() and (floats[:, 49] == 77).all()


def test_threads_do_not_disturb_each_other() -> None:
    """Repeated often enough for an early thread to read elements that a late one has not yet written."""
    shape = Shape(4, 32, 14, 14, 32, (3, 3), (1, 1), (1, 1))
    data = draw(shape, 1)
    first = results_of(conv2d_custom, data, shape, "cpu", DIRECTIONS, threads=2)
    for _ in range(40):
        again = results_of(conv2d_custom, data, shape, "cpu", DIRECTIONS, threads=2)
        assert all(np.array_equal(first[direction], again[direction]) for direction in DIRECTIONS)


def an_element(c: Any) -> None:
    c.reshape(-1)[c.size // 3] *= 1.001


def a_tile(c: Any) -> None:
    flat = c.reshape(c.shape[0], -1)
    flat[:16, :16] = 0


def an_unwritten_edge(c: Any) -> None:
    c.reshape(c.shape[0], -1)[:, -1] = np.nan


def a_wrong_stride(c: Any) -> None:
    rows = c.reshape(-1, c.shape[-1])
    rows[1:-1] = rows[:-2].copy()


@pytest.mark.parametrize("arithmetic", one_in(2, TYPES), ids=lambda arithmetic: arithmetic.name)
@pytest.mark.parametrize("fault", [an_element, a_tile, an_unwritten_edge, a_wrong_stride])
@pytest.mark.parametrize("what", ["gemm", "conv2d"])
def test_planted_faults_are_detected(what: str, fault: Callable[[Any], None], arithmetic: Arithmetic) -> None:
    custom = gemm_custom if what == "gemm" else conv2d_custom
    shape: Any = gemm.Shape(64, 96, 80) if what == "gemm" else LAYERS[3]

    def wrong(data: Any, shape: Any, *arguments: Any) -> Any:
        results = {name: np.ascontiguousarray(c) for name, c in results_of(custom, data, shape, *arguments).items()}
        fault(results[FORWARD])
        return results

    found = check(shape, wrong, "cpu", 7, DIRECTIONS, arithmetic)
    values = {residuals.direction: residuals.elementwise for residuals in found}
    assert values[FORWARD] > ELEMENTWISE_LIMIT
    assert max(values[direction] for direction in DIRECTIONS if direction != FORWARD) <= ELEMENTWISE_LIMIT


@pytest.mark.parametrize("arithmetic", TYPES, ids=lambda arithmetic: arithmetic.name)
def test_a_missing_last_slice_is_detected(arithmetic: Arithmetic) -> None:
    def short(data: Any, shape: Any, *arguments: Any) -> Any:
        data = data._replace(x=data.x[:, :-1], w=data.w[:, :-1])
        return results_of(gemm_custom, data, gemm.Shape(shape.batch, shape.features - 1, shape.outputs), *arguments)

    shape = gemm.Shape(48, 2048, 48)
    (found,) = check(shape, short, "cpu", 7, [FORWARD], arithmetic)
    assert found.elementwise > ELEMENTWISE_LIMIT


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("order", ["C", "F", "steps"])
@pytest.mark.parametrize("size", [(1, 1, 1), (5, 33, 3), (14, 64, 32), (40, 100, 70), (29, 31, 4), (17, 64, 3000)])
@pytest.mark.parametrize("instruction", [True, False], ids=["own instruction", "by fp32"])
def test_int8_products_are_exact(
    size: tuple[int, int, int], order: str, threads: int, instruction: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if instruction and not gemm_custom.HOST.multiplies_bytes:
        pytest.skip("NO VNNI: ITS PRODUCT OF BYTES NOT RUN")
    monkeypatch.setattr(gemm_custom, "HOST", replace(gemm_custom.HOST, multiplies_bytes=instruction))
    (m, n, k), generator = size, np.random.default_rng(5)

    def made(rows: int, columns: int) -> Any:
        steps = generator.integers(-128, 128, (2 * rows, 3 * columns), np.int8)
        return steps[::-2, 1::3] if order == "steps" else np.asarray(steps[:rows, :columns], order=order)

    a, b, c = made(m, k), made(k, n), np.full((m, n), 2**30, np.int32)
    a[:, :2], b[:2] = -128, -128
    gemm_custom.gemm_bytes(a, b, c, threads)
    assert np.array_equal(c, a.astype(np.int32) @ b.astype(np.int32))
