"""The check before the timing detects faults in types that only GPUs compute: tf32, and results stored in 16 bits."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from hpcai.kernels import gemm, verify
from hpcai.kernels.gemm import reference
from hpcai.kernels.providers import Prepared
from hpcai.kernels.spec import DIRECTIONS, DTYPES, FORWARD, WEIGHT_GRADIENT, Tensors

HELD = [dtype for dtype, each in DTYPES.items() if each.held is not Tensors]
MATRICES, DEEP, WIDE = gemm.Shape(70, 90, 50), gemm.Shape(33, 2048, 65), gemm.Shape(20, 300, 1000)


@pytest.fixture(params=[verify.EVERY_ELEMENT, verify.RANDOM_VECTORS])
def kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == verify.RANDOM_VECTORS:
        monkeypatch.setattr(verify, "LARGEST_OPERATIONS", 0)
    return str(request.param)


def product(direction: str, data: Tensors, dtype: str) -> Any:
    """The exact product, rounded to the stored type."""
    left, right = (np.asarray(factor, np.float64) for factor in reference.factors(direction, data))
    stored = torch.from_numpy(left @ right).to(getattr(torch, DTYPES[dtype].result))
    exact = stored.float().numpy()
    return exact.T if direction == WEIGHT_GRADIENT else exact


def measured(shape: Any, direction: str, dtype: str, data: Tensors, result: Any) -> float:
    found = Prepared(lambda: None, lambda: np.ascontiguousarray(result), lambda: None)
    return verify.residual(gemm.SPEC, shape, direction, dtype, data, found)


@pytest.mark.parametrize("dtype", HELD)
@pytest.mark.parametrize("shape", [MATRICES, DEEP, WIDE], ids=str)
def test_exact_products_rounded_to_the_stored_type_pass(shape: Any, dtype: str, kind: str) -> None:
    data = verify.drawn(shape, dtype, 5)
    for direction in DIRECTIONS:
        value = measured(shape, direction, dtype, data, product(direction, data, dtype))
        assert value <= 0.75
        assert value > 0.25 or not DTYPES[dtype].arithmetic.roundoff


def a_sign(C: Any) -> None:
    largest = np.unravel_index(np.argmax(np.abs(C)), C.shape)
    C[largest] *= -1


def an_element(C: Any) -> None:
    C[np.unravel_index(np.argsort(np.abs(C), None)[C.size // 2], C.shape)] = 0


def a_tile(C: Any) -> None:
    C[-16:, -16:] = 0


def an_unwritten_edge(C: Any) -> None:
    C[:, -1] = np.nan


def a_wrong_stride(C: Any) -> None:
    C[1:] = C[:-1].copy()


def numbers_cut_to_bf16(C: Any) -> None:
    C[:] = (C.view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32)


@pytest.mark.parametrize(
    "fault", [a_sign, an_element, a_tile, an_unwritten_edge, a_wrong_stride, numbers_cut_to_bf16]
)
@pytest.mark.parametrize("dtype", HELD)
def test_planted_faults_are_detected(dtype: str, fault: Callable[[Any], None], kind: str) -> None:
    if (dtype, fault) == ("bf16", numbers_cut_to_bf16):
        return  # its results are already in that type
    for shape in (MATRICES, WIDE):
        data = verify.drawn(shape, dtype, 5)
        for direction in DIRECTIONS:
            wrong = np.ascontiguousarray(product(direction, data, dtype))
            fault(wrong)
            assert measured(shape, direction, dtype, data, wrong) > 1, direction


@pytest.mark.parametrize("dtype", HELD)
def test_a_missing_last_step_is_detected(dtype: str, kind: str) -> None:
    data = verify.drawn(DEEP, dtype, 5)
    short = data._replace(x=data.x[:, :-1], w=data.w[:, :-1])
    assert measured(DEEP, FORWARD, dtype, data, product(FORWARD, short, dtype)) > 1


def test_operands_are_drawn_in_their_type() -> None:
    for dtype in HELD:
        data, bits = verify.drawn(MATRICES, dtype, 5), DTYPES[dtype].arithmetic.significand
        assert type(data) is DTYPES[dtype].held
        assert not (data.x.view(np.uint32) & np.uint32((1 << 24 - bits) - 1)).any()
        assert np.abs(data.x / verify.drawn(MATRICES, "fp32", 5).x - 1).max() <= 2.0**-bits


def cut_off(sums: Any) -> Any:
    """float64 to fp32 towards zero, as tensor cores store their sums."""
    nearest = sums.astype(np.float32)
    return np.where(np.abs(nearest) > np.abs(sums), np.nextafter(nearest, np.float32(0)), nearest)


@pytest.mark.parametrize(("steps", "together"), [(4096, 4), (16384, 8)])
def test_truncated_sums_pass_in_tf32_alone(steps: int, together: int) -> None:
    shape = gemm.Shape(30, steps, 40)
    data = verify.drawn(shape, "tf32", 5)
    x, w = data.x.astype(np.float64), data.w.astype(np.float64)
    sums = np.zeros((30, 40), np.float32)
    for first in range(0, steps, together):
        part = slice(first, first + together)
        sums = cut_off(sums + x[:, part] @ w[:, part].T)
    assert 0.05 < measured(shape, FORWARD, "tf32", data, sums) < 0.7
    assert measured(shape, FORWARD, "fp32", Tensors(*data), sums) > 1
