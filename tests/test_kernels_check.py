"""The check of the training's provider in every run: clean products pass, wrong ones are detected."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch

from hpcai.kernels import conv2d, gemm
from hpcai.kernels.arithmetic import BF16, FP16, FP32
from hpcai.kernels.check import by_autograd, check, check_layer, draw
from hpcai.kernels.conv2d import vendor
from hpcai.kernels.layers import LARGEST_OPERATIONS, affordable
from hpcai.kernels.spec import DIRECTIONS, FORWARD, WEIGHT_GRADIENT, Tensors

LAYER = conv2d.Shape(32, 16, 14, 14, 32, (3, 3), (2, 2), (1, 1))
NEEDS_GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="NO GPU: ITS PRODUCTS NOT CHECKED")
DEVICES = ["cpu", pytest.param("cuda", marks=NEEDS_GPU)]


@pytest.fixture(autouse=True)
def no_tf32():
    before = torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32
    torch.set_float32_matmul_precision("highest")
    torch.backends.cudnn.allow_tf32 = False
    yield
    torch.set_float32_matmul_precision(before[0])
    torch.backends.cudnn.allow_tf32 = before[1]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("arithmetic", [FP32, FP16, BF16], ids=lambda arithmetic: arithmetic.name)
@pytest.mark.parametrize(
    "shape",
    [
        LAYER,
        conv2d.Shape(32, 1, 28, 28, 16, (3, 3), (1, 1), (1, 1)),
        conv2d.Shape(32, 64, 7, 7, 64, (3, 3), (1, 1), (1, 1)),
        conv2d.Shape(2, 512, 7, 7, 512, (3, 3), (1, 1), (1, 1)),
        conv2d.Shape(2, 256, 14, 14, 512, (1, 1), (2, 2)),
        conv2d.Shape(4, 32, 14, 14, 64, (3, 3), (2, 2), (1, 1), (1, 1), groups=4),
        conv2d.Shape(4, 8, 14, 14, 8, (3, 3), (1, 1), (2, 2), (2, 2), groups=8),
    ],
)
def test_clean_convolutions_pass(shape, device, arithmetic):
    results = check_layer(shape, device, 1, DIRECTIONS, arithmetic)
    assert tuple(result.direction for result in results) == DIRECTIONS
    for result in results:
        assert (result.kernel, result.shape, result.images) == ("conv2d", shape, shape.batch)
        assert 0.0 < result.scaled < 1.0
        assert 0.0 < result.elementwise < 0.6


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("arithmetic", [FP32, FP16, BF16], ids=lambda arithmetic: arithmetic.name)
def test_clean_products_pass(device, arithmetic):
    for result in check_layer(gemm.Shape(64, 512, 1000), device, 1, DIRECTIONS, arithmetic):
        assert 0.0 < result.scaled < 1.0
        assert 0.0 < result.elementwise < 0.6


def test_the_check_is_repeatable():
    assert check_layer(LAYER, "cpu", 4) == check_layer(LAYER, "cpu", 4)
    assert check_layer(LAYER, "cpu", 4) != check_layer(LAYER, "cpu", 5)
    for first, again in zip(draw(LAYER, 4), draw(LAYER, 4), strict=True):
        np.testing.assert_array_equal(first, again)


def test_only_the_requested_directions_are_checked():
    results = check_layer(LAYER, "cpu", 1, (WEIGHT_GRADIENT,))
    assert [result.direction for result in results] == [WEIGHT_GRADIENT]
    assert set(by_autograd(draw(LAYER, 1), LAYER, "cpu", (FORWARD,))) == {FORWARD}


def test_the_check_runs_while_gradients_are_switched_off():
    with torch.no_grad():
        assert len(check_layer(LAYER, "cpu", 1)) == 3


def test_a_large_batch_is_reduced_and_reported():
    layer = conv2d.Shape(256, 128, 28, 28, 128, (3, 3), (1, 1), (1, 1))
    result = check_layer(layer, "cpu", 1, (FORWARD,))[0]
    assert result.shape.batch == 256
    assert result.images == affordable(layer).batch == 4
    assert conv2d.operations(replace(layer, batch=result.images)) <= LARGEST_OPERATIONS


def test_the_batch_that_is_affordable():
    assert affordable(LAYER) == LAYER
    wide = conv2d.Shape(4096, 64, 56, 56, 1, (1, 1))
    assert 1 < affordable(wide).batch < 64
    huge = conv2d.Shape(7, 64, 768, 1152, 64, (7, 7))
    assert affordable(huge) == replace(huge, batch=1)


def truncated(data: Tensors) -> Tensors:
    """The input in the precision of TF32: ten bits of mantissa."""
    bits = data.x.view(np.uint32) & np.uint32(0xFFFFE000)
    return data._replace(x=bits.view(np.float32))


def test_a_provider_that_rounds_its_input_is_detected():
    def run(data, shape, device, directions, stored):
        return by_autograd(truncated(data), shape, device, directions)

    result = check(LAYER, run, "cpu", 1, (FORWARD,))[0]
    assert result.elementwise > 10.0


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("position", [0, 1000, -1])
def test_a_provider_that_omits_one_element_is_detected(direction, position):
    def run(data, shape, device, directions, stored):
        results = {name: value.copy() for name, value in by_autograd(data, shape, device, directions).items()}
        results[direction].flat[position] = 0.0
        return results

    found = check(LAYER, run, "cpu", 1, DIRECTIONS)
    values = {residuals.direction: residuals.elementwise for residuals in found}
    assert values.pop(direction) > 10.0
    assert max(values.values()) < 1.0


def test_a_provider_that_omits_a_row_is_refused():
    def run(data, shape, device, directions, stored):
        return {FORWARD: by_autograd(data, shape, device, (FORWARD,))[FORWARD][:, :, :-1]}

    with pytest.raises(AssertionError, match=FORWARD):
        check(LAYER, run, "cpu", 1, (FORWARD,))


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_a_product_that_omits_one_element_is_detected(direction):
    def run(data, shape, device, directions, stored):
        results = {name: value.copy() for name, value in by_autograd(data, shape, device, directions).items()}
        results[direction][-1, 0] = 0.0
        return results

    shape = gemm.Shape(64, 512, 1000)
    result = check(shape, run, "cpu", 1, (direction,))[0]
    assert result.elementwise > 10.0


@pytest.mark.parametrize("arithmetic", [FP32, FP16, BF16], ids=lambda arithmetic: arithmetic.name)
def test_a_provider_that_ignores_the_stride_is_detected(arithmetic):
    def run(data, shape, device, directions, stored):
        dense = replace(shape, stride=(1, 1))
        grown = Tensors(data.x, data.w, np.zeros(dense.y, np.float32))
        return {FORWARD: by_autograd(grown, dense, device, (FORWARD,))[FORWARD][:, :, : shape.y[2], : shape.y[3]]}

    found = check(LAYER, run, "cpu", 1, (FORWARD,), arithmetic)
    assert found[0].elementwise > 10.0


def test_the_declared_error_of_an_algorithm_widens_the_limit():
    plain = check(LAYER, by_autograd, "cpu", 1, DIRECTIONS)
    wide = check(LAYER, by_autograd, "cpu", 1, DIRECTIONS, slack=lambda *_: 16.0)
    for one, other in zip(plain, wide, strict=True):
        assert one.elementwise == 16 * other.elementwise
    square = replace(LAYER, stride=(1, 1))
    assert [vendor.slack(square, device) for device in ("cuda", "cuda:3", "cpu")] == [16, 16, 1]
    assert vendor.slack(LAYER, "cuda") == vendor.slack(replace(square, kernel=(1, 1)), "cuda") == 1


def test_the_vendors_products_run_channels_last(monkeypatch):
    seen = []
    original = torch.nn.functional.conv2d

    def spy(x, w, *rest):
        seen.extend(tensor.is_contiguous(memory_format=torch.channels_last) for tensor in (x, w))
        return original(x, w, *rest)

    monkeypatch.setattr(torch.nn.functional, "conv2d", spy)
    check_layer(LAYER, "cpu", 1)
    assert seen == [True, True]


def test_scaled_residual_falls_with_the_inner_dimension():
    values = [check_layer(gemm.Shape(32, inner, 32), "cpu", 1, (FORWARD,))[0].scaled for inner in (16, 256, 4096)]
    assert all(larger > smaller for larger, smaller in pairwise(values))
