"""The float64 references against torch's own float64 operators, over many shapes; every output element exactly once."""

import math
from collections.abc import Iterable

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from hpcai.kernels import conv2d, gemm
from hpcai.kernels.check import draw
from hpcai.kernels.conv2d import reference as conv2d_reference
from hpcai.kernels.gemm import reference as gemm_reference
from hpcai.kernels.spec import DIRECTIONS, FORWARD, INPUT_GRADIENT, WEIGHT_GRADIENT, Block, Float32, Float64, Tensors


def numbered(size: tuple[int, ...]) -> Float32:
    """An output whose elements are their own positions, exact in fp32."""
    assert math.prod(size) < 2**24
    return np.arange(math.prod(size), dtype=np.float32).reshape(size)


def assembled(blocks: Iterable[Block], size: tuple[int, ...]) -> Float64:
    """L.R of all blocks, at the places given by the blocks; fails unless each place is named once."""
    places, values = [], []
    for block in blocks:
        places.append(block.C.ravel())
        values.append((block.L @ block.R).ravel())
    order = np.concatenate(places).astype(int)
    np.testing.assert_array_equal(np.sort(order), np.arange(math.prod(size)))
    return np.concatenate(values)[np.argsort(order)].reshape(size)


def torch_float64(shape: conv2d.Shape, data: Tensors) -> dict[str, Float64]:
    x, w, g = (torch.from_numpy(tensor).double() for tensor in data)
    x.requires_grad_()
    w.requires_grad_()
    y = torch.nn.functional.conv2d(x, w, None, shape.stride, shape.padding, shape.dilation, shape.groups)
    torch.autograd.backward(y, g)
    assert x.grad is not None
    assert w.grad is not None
    results = {FORWARD: y.detach(), INPUT_GRADIENT: x.grad, WEIGHT_GRADIENT: w.grad}
    return {name: tensor.numpy() for name, tensor in results.items()}


def agree(shape: conv2d.Shape) -> None:
    data = draw(shape, seed=3)
    expected = torch_float64(shape, data)
    for direction in DIRECTIONS:
        size = shape.result(direction)
        blocks = conv2d_reference.blocks(direction, data, numbered(size), shape)
        np.testing.assert_allclose(assembled(blocks, size), expected[direction], rtol=0.0, atol=1e-11)


pair = st.tuples(st.integers(1, 3), st.integers(1, 3))


@settings(max_examples=60, deadline=None)
@given(
    st.integers(1, 3),
    st.tuples(st.integers(1, 3), st.integers(1, 3), st.integers(1, 3)),
    st.tuples(st.integers(1, 9), st.integers(1, 9)),
    pair,
    pair,
    st.tuples(st.integers(0, 3), st.integers(0, 3)),
    pair,
)
def test_random_convolutions_agree_with_torch(batch, groups_in_out, size, kernel, stride, padding, dilation):
    groups, channels, filters = groups_in_out
    try:
        shape = conv2d.Shape(
            batch, groups * channels, *size, groups * filters, kernel, stride, padding, dilation, groups
        )
    except ValueError:
        assume(False)
    agree(shape)


@pytest.mark.parametrize(
    "shape",
    [
        conv2d.Shape(2, 3, 32, 32, 8, (7, 7), (2, 2), (3, 3)),
        conv2d.Shape(2, 8, 14, 14, 16, (1, 1), (2, 2)),
        conv2d.Shape(2, 12, 13, 10, 12, (3, 5), (2, 1), (1, 2), (1, 2), groups=12),
    ],
)
def test_layers_in_several_blocks_agree_with_torch(shape, monkeypatch):
    monkeypatch.setattr(conv2d_reference, "BLOCK_ELEMENTS", 700)
    assert len(list(conv2d_reference.blocks(FORWARD, draw(shape, 3), numbered(shape.y), shape))) > 3
    agree(shape)


@pytest.mark.parametrize("elements", [1, 50, 2**20])
def test_gemm_agrees_with_torch(elements, monkeypatch):
    monkeypatch.setattr(gemm_reference, "BLOCK_ELEMENTS", elements)
    shape = gemm.Shape(batch=7, features=13, outputs=5)
    data = draw(shape, seed=3)
    x, w, g = (tensor.astype(np.float64) for tensor in data)
    expected = {FORWARD: x @ w.T, INPUT_GRADIENT: g @ w, WEIGHT_GRADIENT: g.T @ x}
    for direction in DIRECTIONS:
        size = shape.result(direction)
        blocks = gemm_reference.blocks(direction, data, numbered(size), shape)
        np.testing.assert_allclose(assembled(blocks, size), expected[direction], rtol=0.0, atol=1e-12)


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 5), st.integers(1, 4), st.integers(1, 3), st.integers(0, 2))
def test_inner_counts_the_terms_that_can_be_non_zero(kernel, stride, dilation, padding):
    shape = conv2d.Shape(1, 2, 41, 41, 3, *[(extent, 1) for extent in (kernel, stride)], (padding, 0), (dilation, 1))
    ones = Tensors(*(np.ones(size, np.float32) for size in (shape.x, shape.w, shape.y)))
    for direction in DIRECTIONS:
        out = numbered(shape.result(direction))
        most = max((block.L @ block.R).max() for block in conv2d_reference.blocks(direction, ones, out, shape))
        unpadded = direction != WEIGHT_GRADIENT or padding == 0
        assert most == shape.inner(direction) if unpadded else most <= shape.inner(direction)
