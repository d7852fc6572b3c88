"""The check before the timing detects each planted fault, in every type, by every element and by random vectors."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from sampled_parameters import fast

from hpcai.kernels import conv2d, fma_peak, gemm, triad, verify
from hpcai.kernels.arrays import poisoned
from hpcai.kernels.providers import Prepared, backend
from hpcai.kernels.residual import worst, wrong
from hpcai.kernels.spec import DIRECTIONS, FORWARD, Compared

MATRICES = gemm.Shape(70, 90, 50)
LAYER = conv2d.Shape(2, 24, 9, 8, 40, (3, 3), (2, 1), (1, 1))
DEEP = gemm.Shape(33, 2048, 65)  # one of many terms has little weight
TYPES = ("fp32", "fp64", "int8")  # the others: test_kernels_verify_types.py
BOTH = [verify.EVERY_ELEMENT, verify.RANDOM_VECTORS]
CASES = [(gemm.SPEC, MATRICES, dtype) for dtype in TYPES] + [(gemm.SPEC, DEEP, dtype) for dtype in TYPES]
CASES += [(conv2d.SPEC, LAYER, dtype) for dtype in ("fp32", "fp64")]
FP32_CASES = [case for case in CASES if case[2] == "fp32"]


@pytest.fixture(params=BOTH)
def kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == verify.RANDOM_VECTORS:
        monkeypatch.setattr(verify, "LARGEST_OPERATIONS", 0)
    return str(request.param)


def limit(dtype: str) -> float:
    return 0.0 if dtype == "int8" else 1.0


def computed(spec: Any, shape: Any, direction: str, data: Any, provider: str = "custom") -> Prepared:
    found = backend(spec, provider, "cpu").prepare(shape, direction, data, "cpu", 2)[0]
    found.call()
    return Prepared(found.call, lambda: found.result().copy(), found.poison_result)


@pytest.mark.parametrize("provider", ["custom", "vendor"])
@pytest.mark.parametrize(("spec", "shape", "dtype"), fast(FP32_CASES, CASES), ids=str)
def test_clean_products_pass_in_every_direction(spec: Any, shape: Any, dtype: str, provider: str, kind: str) -> None:
    data = verify.drawn(shape, dtype, 5)
    assert verify.checked(spec, shape) == kind
    for direction in DIRECTIONS:
        found = computed(spec, shape, direction, data, provider)
        assert verify.residual(spec, shape, direction, dtype, data, found) <= limit(dtype) * 0.7


def an_element(C: Any) -> None:
    C[-1, C.shape[1] // 3] += 1 if C.dtype == np.int32 else 0.01


def a_tile(C: Any) -> None:
    C[-16:, -16:] = 0


def an_unwritten_edge(C: Any) -> None:
    C[:, -1] = poisoned((1,), C.dtype.name)


def a_wrong_stride(C: Any) -> None:
    C[1:] = C[:-1].copy()


@pytest.mark.parametrize("fault", [an_element, a_tile, an_unwritten_edge, a_wrong_stride])
@pytest.mark.parametrize(("spec", "shape", "dtype"), fast(FP32_CASES, CASES), ids=str)
def test_planted_faults_are_detected(
    spec: Any, shape: Any, dtype: str, fault: Callable[[Any], None], kind: str
) -> None:
    data = verify.drawn(shape, dtype, 5)
    for direction in DIRECTIONS:
        clean = computed(spec, shape, direction, data)

        def changed(clean: Prepared = clean) -> Any:
            flat = np.ascontiguousarray(clean.result())
            fault(flat.reshape(flat.shape[0], -1))
            return flat

        value = verify.residual(spec, shape, direction, dtype, data, Prepared(clean.call, changed, clean.poison_result))
        assert value > limit(dtype), direction


@pytest.mark.parametrize("dtype", TYPES)
def test_a_missing_last_slice_is_detected(dtype: str, kind: str) -> None:
    data = verify.drawn(DEEP, dtype, 5)
    short = data._replace(x=data.x[:, :-1], w=data.w[:, :-1])
    missing = computed(gemm.SPEC, gemm.Shape(33, 2047, 65), FORWARD, short)
    assert verify.residual(gemm.SPEC, DEEP, FORWARD, dtype, data, missing) > limit(dtype)
    bare = verify.drawn(LAYER, "fp32", 5)
    x = bare.x.copy()
    x[:, -1] = 0
    taps = computed(conv2d.SPEC, LAYER, FORWARD, bare._replace(x=x))
    assert verify.residual(conv2d.SPEC, LAYER, FORWARD, "fp32", bare, taps) > 1


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_another_stride_of_the_layer_is_detected(direction: str, kind: str) -> None:
    """Every second row of a dense layer differs from a layer of stride 2 with another begin."""
    data = verify.drawn(LAYER, "fp32", 5)
    moved = data._replace(x=np.roll(data.x, 1, 2), w=np.roll(data.w, 1, 2))
    found = computed(conv2d.SPEC, LAYER, direction, moved)
    assert verify.residual(conv2d.SPEC, LAYER, direction, "fp32", data, found) > 10


def test_only_an_algorithms_declared_error_widens_the_limit() -> None:
    data = verify.drawn(MATRICES, "fp32", 5)
    found = computed(gemm.SPEC, MATRICES, FORWARD, data)
    plain = verify.residual(gemm.SPEC, MATRICES, FORWARD, "fp32", data, found)
    wide = verify.residual(gemm.SPEC, MATRICES, FORWARD, "fp32", data, found._replace(slack=16.0))
    assert 0 < plain == pytest.approx(16 * wide)


def test_operands_are_drawn_independently() -> None:
    whole, part = verify.drawn(MATRICES, "fp64", 5), verify.drawn(MATRICES, "fp64", 5, ("w",))
    assert np.array_equal(whole.w, part.w) and part.x.size == part.g.size == 0
    assert not np.array_equal(whole.w, verify.drawn(MATRICES, "fp64", 6).w)
    assert {tensor.dtype.name for tensor in verify.drawn(MATRICES, "int8", 5)} == {"int8"}
    assert verify.checked(gemm.SPEC, gemm.Shape(2048, 2048, 2048)) == verify.RANDOM_VECTORS
    assert verify.checked(gemm.SPEC, gemm.Shape(1024, 1024, 1024)) == verify.EVERY_ELEMENT


def test_empty_results_and_values_that_are_not_finite_never_pass() -> None:
    one = np.ones(1)
    assert worst([]) == wrong([]) == np.inf
    for value in (np.nan, np.inf):
        assert worst([Compared(one * value, one, one)]) == np.inf
    assert worst([Compared(one, one, 0 * one)]) == 0
    assert worst([Compared(one + 1e-30, one, 0 * one), Compared(2 * one, one, 0 * one)]) == np.inf


@pytest.mark.parametrize("dtype", ["fp32", "fp64"])
def test_a_peak_that_omits_steps_is_detected(dtype: str) -> None:
    module = backend(fma_peak.SPEC, "custom", "cpu")
    shape = module.shape(dtype, 2**20, "cpu", 2)
    data = fma_peak.Numbers(dtype)
    (found,) = module.prepare(shape, "ceiling", data, "cpu", 2)
    assert verify.residual(fma_peak.SPEC, shape, "ceiling", dtype, data, found) == np.inf
    found.call()
    assert verify.residual(fma_peak.SPEC, shape, "ceiling", dtype, data, found) == 0
    more = fma_peak.Shape(shape.sums, shape.steps + 4)
    assert verify.residual(fma_peak.SPEC, more, "ceiling", dtype, data, found) > 1


@pytest.mark.parametrize("provider", ["custom", "vendor"])
def test_a_triad_that_omits_an_element_is_detected(provider: str) -> None:
    shape = triad.Shape(300_001)
    b, c = np.random.default_rng(1).standard_normal((2, shape.length))
    data = triad.Vectors(b, c)
    (found,) = backend(triad.SPEC, provider, "cpu").prepare(shape, "ceiling", data, "cpu", 2)
    assert verify.residual(triad.SPEC, shape, "ceiling", "fp64", data, found) == np.inf
    found.call()
    assert 0 <= verify.residual(triad.SPEC, shape, "ceiling", "fp64", data, found) <= 0.5
    a = found.result()
    a[-1] *= 1 + 1e-12
    assert (
        verify.residual(
            triad.SPEC, shape, "ceiling", "fp64", data, Prepared(found.call, lambda: a, found.poison_result)
        )
        > 1
    )
