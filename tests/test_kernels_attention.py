"""Causal attention: every element against float64, in sizes around those of the tiles, and as a function of torch."""

from typing import Any

import numpy as np
import pytest
import torch
from sampled_parameters import one_in
from torch.nn import functional

from hpcai.kernels.arrays import aligned
from hpcai.kernels.attention import PASSES, SPEC, Shape, check, numba_cpu, reference, vendor
from hpcai.kernels.attention.cpu.layout import KEYS, QUERIES, Heads
from hpcai.kernels.cpu.exponential import EXPONENTIAL_ERROR, LEAST
from hpcai.kernels.operators import sequences
from hpcai.kernels.providers import Unavailable
from hpcai.kernels.residual import worst
from hpcai.kernels.spec import FORWARD, INPUT_GRADIENT, Tensors
from hpcai.kernels.verify import drawn, residual
from hpcai.models.sequence_layers import rotated, rotations

PLACES = [1, 2, QUERIES - 1, QUERIES, 128, KEYS - 1, KEYS, KEYS + 1, 300, 2 * KEYS + 5]
SHAPES = [Shape(1 + places % 2, 1 + places % 3, places) for places in PLACES] + [Shape(2, 2, 70, 128)]
U = 2.0**-24


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("spread", [1.0, 4.0], ids=["as drawn", "with sharp maxima"])
@pytest.mark.parametrize("direction", PASSES)
@pytest.mark.parametrize("shape", one_in(4, SHAPES), ids=lambda shape: shape.text(FORWARD))
def test_every_element_is_within_its_bound(shape: Shape, direction: str, spread: float, threads: int) -> None:
    data = drawn(shape, "fp32", 1)
    data = Tensors(aligned(np.float32(spread) * data.x), *data[1:])
    (found,) = numba_cpu.prepare(shape, direction, data, "cpu", threads)
    found.call()
    first = found.result().copy()
    assert worst(reference.compared(first, data, shape, direction)) < 0.5
    found.poison_result()
    found.call()
    assert np.array_equal(found.result(), first)


@pytest.mark.parametrize("direction", PASSES)
@pytest.mark.parametrize(("dtype", "limit"), [("fp32", 0.5), ("fp16", 1.0), ("bf16", 1.0)])
def test_torch_is_within_the_bound(dtype: str, limit: float, direction: str) -> None:
    shape = Shape(2, 3, 150)
    data = drawn(shape, dtype, 2)
    (found,) = vendor.prepare(shape, direction, data, "cpu", 1)
    found.call()
    assert 0.0 < residual(SPEC, shape, direction, dtype, data, found) < limit


def test_the_exponential_has_the_error_it_states() -> None:
    """As the sum of a row of two scores: 1 / (1 + 2^x) has at most half of the relative error of 2^x."""
    x = np.concatenate([np.linspace(LEAST, 0, 20001), np.linspace(-1, 0, 20001), -np.logspace(-8, 0, 999)])
    shape = Shape(1, len(x), 2)
    q, k, v = (np.zeros(shape.y, np.float32) for _ in range(3))
    q[..., 1, 0], v[..., 0, 0] = 1.0, 1.0
    k[0, :, 0, 0] = x * np.log(2.0) / shape.scale
    data = Tensors(aligned(np.stack([q, k, v])), np.empty(0), np.empty(0))
    (found,) = numba_cpu.prepare(shape, FORWARD, data, "cpu", 1)
    found.call()
    score = k[0, :, 0, 0].astype(np.float64) * shape.scale / np.log(2.0)
    power = 2.0**score
    # the score has four roundings: scale, its product, the maximum that is 0, and the difference
    error = np.abs(found.result()[0, :, 1, 0] / (power / (1 + power)) - 1)
    allowed = (EXPONENTIAL_ERROR + 4) * U + 2 * U * np.abs(score) * np.log(2.0)
    assert (error <= allowed)[power > 1.01 * 2.0**LEAST].all()


def test_what_is_not_a_number_stays_so() -> None:
    shape = Shape(1, 1, 40)
    data = drawn(shape, "fp32", 3)
    data.x[0, 0, 0, 20, 3] = np.nan
    (found,) = numba_cpu.prepare(shape, FORWARD, data, "cpu", 1)
    found.call()
    bad = np.isnan(found.result()[0, 0]).all(axis=1)
    assert bad.tolist() == [row == 20 for row in range(40)]


def test_other_types_and_sizes_are_refused() -> None:
    with pytest.raises(Unavailable, match="attention in fp64 in Numba; there is fp32"):
        numba_cpu.prepare(Shape(1, 1, 4), FORWARD, drawn(Shape(1, 1, 4), "fp64", 1), "cpu", 1)
    with pytest.raises(ValueError, match="allowed: heads of multiples of 64 features"):
        check(Shape(1, 1, 4, 32))


def test_operations_are_those_of_the_half_that_is_not_masked() -> None:
    shape = Shape(2, 3, 5)
    pairs = sum(range(1, 6))
    assert SPEC.operations(shape) == SPEC.operations_of(shape, FORWARD) == 2 * 3 * pairs * 64 * 2 * 2
    assert SPEC.operations_of(shape, INPUT_GRADIENT) == 2 * SPEC.operations(shape)


@pytest.mark.parametrize("places", [7, 130])
def test_the_function_of_torch_rotates_and_attends_as_torch_does(places: int) -> None:
    width = 128
    x = torch.randn(2, places, 3 * width, requires_grad=True)
    g = torch.randn(2, places, width)
    found = sequences.attention(x, 64, *rotations(places, x.dtype, x.device))
    (dx,) = torch.autograd.grad(found, x, g)
    doubles = x.detach().double().requires_grad_()
    q, k, v = doubles.view(2, places, 3, 2, 64).permute(2, 0, 3, 1, 4)
    right = functional.scaled_dot_product_attention(rotated(q), rotated(k), v, is_causal=True)
    right = right.transpose(1, 2).reshape(2, places, width)
    (exact,) = torch.autograd.grad(right, doubles, g.double())
    assert (found - right).abs().max() < 1e-5 * right.abs().max()
    assert (dx - exact).abs().max() < 1e-5 * exact.abs().max()


@pytest.mark.parametrize("backwards", [False, True])
def test_rotations_are_exact_to_rounding(backwards: bool) -> None:
    shape = Shape(2, 3, 9)
    source = aligned(np.random.default_rng(4).standard_normal(shape.y, np.float32))
    target = np.full_like(source, np.nan)
    cosines, sines = (each.numpy() for each in rotations(9, torch.float32, torch.device("cpu")))
    given = (numba_cpu.heads_of(source), numba_cpu.heads_of(target), cosines.ctypes.data, sines.ctypes.data)
    numba_cpu.rotate(shape, *given, 2, backwards)
    right = reference.rotated(source.astype(np.float64), cosines, -sines if backwards else sines)
    assert (np.abs(target - right.exact) <= right.allowed).all()


def test_heads_may_lie_side_by_side() -> None:
    shape, made = Shape(2, 3, 33), np.full((2, 33, 3 * 64), np.nan, np.float32)
    data = drawn(shape, "fp32", 5)
    rows = [aligned(each.transpose(0, 2, 1, 3).reshape(2, 33, 192)) for each in data.x]

    def heads(array: Any) -> Heads:
        return Heads(array.ctypes.data, array.strides[0], 64 * 4, array.strides[1])

    log_sums = np.empty(shape.y[:3], np.float32)
    numba_cpu.forward(shape, *map(heads, (*rows, made)), log_sums.ctypes.data, 1)
    found = made.reshape(2, 33, 3, 64).transpose(0, 2, 1, 3)
    assert worst(reference.compared(found, data, shape, FORWARD)) < 0.5
