"""Quantised values and scales, and int8 convolutions, against NumPy: every value, every sum, and infinite values."""

import math
from typing import Any

import numpy as np
import pytest
import torch

from hpcai.kernels.arrays import aligned
from hpcai.kernels.conv2d import Shape, numba_cpu
from hpcai.kernels.operators import on_cpu, on_gpu
from hpcai.kernels.quantise import HIGHEST, LEAST, MOST_TERMS
from hpcai.kernels.quantise import numba_cpu as custom
from hpcai.kernels.quantise.reference import quantised

pytestmark = pytest.mark.slow

SIZES = [(3, 5, 7, 16), (2, 4, 9, 3), (5, 1, 1, 1), (1, 6, 5, 70), (4, 1, 1, 333), (2, 3, 3, 24)]
LAYERS = [
    Shape(2, 16, 9, 8, 20, (3, 3), (1, 1), (1, 1)),
    Shape(3, 5, 7, 6, 9, (3, 2), (2, 1), (1, 0), (1, 2)),
    Shape(2, 6, 7, 6, 4, (3, 3), (1, 1), (1, 1), (1, 1), 2),
    Shape(2, 4, 5, 5, 4, (3, 3), (2, 2), (1, 1), (1, 1), 4),  # depth-wise
    Shape(1, 1, 12, 11, 33, (5, 5), (2, 2), (2, 2)),
    Shape(2, 70, 4, 4, 17, (1, 1)),
    Shape(3, 260, 1, 1, 10, (1, 1)),
]


def numbers(size: tuple[int, ...], seed: int = 1) -> Any:
    generator = np.random.default_rng(seed)
    spread = 10.0 ** generator.integers(-3, 4, (size[0], *[1] * (len(size) - 1)))
    return aligned((generator.standard_normal(size) * spread).astype(np.float32))


def quantise(x: Any, images: custom.Images, signed: bool, threads: int) -> tuple[Any, Any]:
    q = np.full(images.bytes_size, 77, np.int8 if signed else np.uint8)
    scales = np.full(len(x), np.nan, np.float32)
    custom.quantise(images, x.ctypes.data, q, scales, signed, threads)
    return q, scales


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_quantised_values_and_scales_equal_the_reference(size: tuple[int, ...], threads: int) -> None:
    x = numbers(size)
    right, of_right = quantised(x)
    channels, together = size[3], -(-size[3] // 4) * 4
    for signed in (True, False):
        q, scales = quantise(x, custom.Images(*size), signed, threads)
        assert np.array_equal(scales, of_right)
        zero = 0 if signed else 128
        assert q.shape == (*size[:3], together)
        assert np.array_equal(q[..., :channels].astype(int) - zero, right)
        assert (q[..., channels:] == zero).all()


@pytest.mark.parametrize("threads", [1, 2])
def test_images_get_borders_of_zeros_and_groups_whole_words(threads: int) -> None:
    x = numbers((3, 4, 5, 6))
    right, _ = quantised(x)
    q, _ = quantise(x, custom.Images(3, 4, 5, 6, 2, 1, 2), False, threads)
    wanted = np.zeros((3, 6, 9, 2, 4), int)
    wanted[:, 1:5, 2:7, :, :3] = right.reshape(3, 4, 5, 2, 3)
    assert np.array_equal(q.astype(int) - 128, wanted.reshape(q.shape))


def test_the_largest_becomes_127_ties_round_to_even_and_tiny_values_to_zero() -> None:
    x = np.float32([[127.0, 0.5, 1.5, 2.5, -2.5, -127.0, 126.49, 0.0]]).reshape(1, 1, 1, 8)
    assert quantised(x)[0].ravel().tolist() == [127, 0, 2, 2, -2, -127, 126, 0]
    assert np.array_equal(quantise(x, custom.Images(1, 1, 1, 8), True, 1)[0], quantised(x)[0])
    for value, scale in ((0.0, 0.0), (np.float32(LEAST) / 2, 0.0), (np.float32(LEAST), np.float32(LEAST / HIGHEST))):
        x[:] = value
        q, scales = quantise(x, custom.Images(1, 1, 1, 8), True, 1)
        assert scales.tolist() == [scale] == quantised(x)[1].tolist()
        assert (q == (HIGHEST if scale else 0)).all()


@pytest.mark.parametrize("size", [8, 64, 100, 331])
@pytest.mark.parametrize("wrong", [math.nan, math.inf, -math.inf])
def test_values_that_are_not_finite_give_no_finite_result(size: int, wrong: float) -> None:
    for place in (0, size // 2, size - 1):
        x, w = torch.ones(2, size, 1, 1), torch.ones(3, size, 1, 1)
        x[1, place] = wrong
        shape = Shape(2, size, 1, 1, 3, (1, 1))
        for compute in (on_cpu.convolve_bytes, _convolve_as_a_gpu):
            y = compute(x, w, shape)[0]
            assert y[0].isfinite().all() and not y[1].isfinite().any(), compute


def _convolve_as_a_gpu(x: Any, w: Any, shape: Shape) -> tuple[Any, Any]:
    """The operations around the product on a GPU; torch computes the product on any device."""
    (q, scales), (by, by_filter) = on_gpu._quantised(x), on_gpu._quantised(w)
    sums = torch.nn.functional.conv2d(q.double(), by.double()).to(torch.int32)
    return on_gpu._scaled(sums, scales, by_filter), scales


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_a_gpus_quantised_values_and_scales_are_the_same(size: tuple[int, ...]) -> None:
    x = numbers(size)
    x[0] = 0.0
    q, scales = on_gpu._quantised(torch.from_numpy(x))
    right, of_right = quantised(x)
    assert np.array_equal(q.numpy(), right) and np.array_equal(scales.numpy(), of_right)
    near = right * of_right.reshape(-1, 1, 1, 1)
    for backend in (on_cpu, on_gpu):
        found = backend.nearest(torch.from_numpy(x).permute(0, 3, 1, 2), scales)
        assert np.array_equal(found.permute(0, 2, 3, 1), near)


def drawn(shape: Shape, extreme: bool) -> tuple[Any, Any]:
    """Quantised images, int8[N, C, H, W], and filters; extreme ones have only the largest and the smallest value."""
    generator = np.random.default_rng(4)
    both = (np.array([-127, 127], np.int8), np.arange(-127, 128, dtype=np.int8))
    return tuple(generator.choice(both[not extreme], size) for size in (shape.x, shape.w))  # type: ignore[return-value]


def expected(x: Any, w: Any, shape: Shape) -> Any:
    """The sums in int64, channels last."""
    x, w = (torch.from_numpy(each.astype(np.float64)) for each in (x, w))
    window = (shape.stride, shape.padding, shape.dilation, shape.groups)
    return torch.nn.functional.conv2d(x, w, None, *window).permute(0, 2, 3, 1).numpy().astype(np.int64)


def convolved(x: Any, w: Any, shape: Shape, compute: Any, threads: int) -> Any:
    """As in training: borders and padded words, 128 added to each byte of an image, and subtracted at the end."""
    floats = [aligned(np.ascontiguousarray(each.transpose(0, 2, 3, 1)).astype(np.float32)) for each in (x, w)]
    images = custom.Images(*floats[0].shape, shape.groups, *shape.padding)
    q, scales = quantise(floats[0], images, False, threads)
    by, by_filter = quantise(floats[1], custom.Images(*floats[1].shape), True, threads)
    sums, y = np.empty(len(by), np.int32), np.full((*(shape.y[axis] for axis in (0, 2, 3, 1)),), -7, np.int32)
    custom.sums_of_filters(by.reshape(len(by), -1), sums)
    whole = Shape(len(q), q.shape[3], *q.shape[1:3], shape.filters, shape.kernel, shape.stride, (0, 0),
                  shape.dilation, shape.groups)  # fmt: skip
    compute(q, by, y, whole, threads)
    return y - sums, scales, by_filter


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("compute", [numba_cpu.forward_bytes, numba_cpu._forward_bytes_by_floats])
@pytest.mark.parametrize("shape", LAYERS, ids=str)
def test_sums_are_exact(shape: Shape, compute: Any, threads: int) -> None:
    for extreme in (False, True):
        x, w = drawn(shape, extreme)
        x[:, 0, 0, 0] = w[:, 0, 0, 0] = 127  # so that the scale of each is 1
        found, scales, by_filter = convolved(x, w, shape, compute, threads)
        assert (scales == 1).all() and (by_filter == 1).all()
        assert np.array_equal(found, expected(x, w, shape))


def test_sums_of_sixteen_bits_are_detected() -> None:
    """Like vpmaddubsw: pairs of products, saturated at 16 bits."""
    shape = LAYERS[5]
    x, w = drawn(shape, True)
    x[:, 0, 0, 0] = w[:, 0, 0, 0] = 127

    def saturating(q: Any, by: Any, y: Any, *rest: Any) -> None:
        products = q[:, :, :, None, :].astype(int) * by[:, 0, 0, :].astype(int)
        pairs = products[..., ::2] + products[..., 1::2]
        y[:] = np.clip(pairs, -(2**15), 2**15 - 1).sum(axis=-1)

    assert not np.array_equal(convolved(x, w, shape, saturating, 1)[0], expected(x, w, shape))


def test_the_longest_sum_does_not_overflow() -> None:
    """Of the largest bytes: more than 2^31 before 128 times the filter's sum is subtracted, and less after it."""
    assert 2**31 - HIGHEST**2 <= MOST_TERMS * HIGHEST**2 < 2**31
    x, w = torch.ones(1, MOST_TERMS), torch.tensor([[1.0], [-1.0]]).expand(2, MOST_TERMS)
    y, of_x, of_w = on_cpu.multiply_bytes(x, w)
    right = np.float32(MOST_TERMS * HIGHEST**2) * (of_x.numpy() * of_w.numpy())
    assert np.array_equal(y.numpy()[0], right * np.float32([1, -1]))


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_sums_are_scaled_image_by_image(threads: int) -> None:
    generator = np.random.default_rng(2)
    sums = generator.integers(-(2**30), 2**30, (3, 5, 19), np.int32)
    off = generator.integers(-(2**20), 2**20, 19, np.int32)
    scales, by_filter = (generator.standard_normal(size).astype(np.float32) for size in (3, 19))
    y = aligned(sums)
    custom.scale(y.ctypes.data, 3, 5, scales, by_filter, off, threads)
    right = (sums - off).astype(np.float32) * np.multiply.outer(scales, by_filter)[:, None]
    assert np.array_equal(y.view(np.float32), right)
