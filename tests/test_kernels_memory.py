"""Memory accesses of the custom convolution: any layout with adjacent channels, and no byte outside."""

import ctypes
import mmap
import random
from typing import Any

import numpy as np
import pytest

from hpcai.kernels import conv2d
from hpcai.kernels.arithmetic import FP32, FP64, Arithmetic
from hpcai.kernels.check import draw
from hpcai.kernels.conv2d import Shape, numba_cpu, reference
from hpcai.kernels.residual import measure
from hpcai.kernels.spec import DIRECTIONS, FORWARD, INPUT_GRADIENT, Tensors

LAST, FIRST = (0, 2, 3, 1), (0, 3, 1, 2)
PAGE = mmap.PAGESIZE
FORBIDDEN = 0  # PROT_NONE
SIZES = {"channels": (1, 2, 3, 16, 33, 40, 64), "filters": (1, 3, 7, 32, 33, 70)}


def random_shape(draw_from: random.Random) -> Shape:
    """Small, often with sizes of 1."""
    pick = draw_from.randint
    while True:
        groups = draw_from.choice((1, 1, 2, 3))
        channels, filters = (groups * draw_from.choice(SIZES[name]) for name in ("channels", "filters"))
        ranges = (1, 5), (1, 3), (0, 3), (1, 2)
        windows = [(pick(*span), pick(*span)) for span in ranges]
        try:
            return Shape(pick(1, 6), channels, pick(1, 12), pick(1, 12), filters, *windows, groups)
        except ValueError:  # its output is empty
            continue


def compute(direction: str, arrays: Any, result: Any, shape: Shape, threads: int) -> None:
    x, w, g = arrays
    if direction == FORWARD:
        numba_cpu.forward(x, w, result, shape, threads)
    elif direction == INPUT_GRADIENT:
        numba_cpu.input_gradient(g, w, result, shape, threads)
    else:
        numba_cpu.weight_gradient(x, g, result, shape, threads)


def error(direction: str, data: Tensors, result: Any, shape: Shape, arithmetic: Arithmetic) -> float:
    inner = shape.inner(direction)
    tolerance = conv2d.SPEC.tolerance(inner) * arithmetic.unit / FP32.unit
    blocks = reference.blocks(direction, data, result.transpose(FIRST), shape)
    return measure(blocks, inner, tolerance, 1, arithmetic)[1]


def between_forbidden_pages(kept: list[Any], size: tuple[int, ...], kind: str, at_the_end: bool) -> Any:
    """An array whose first or last byte is next to a page that ends the process when it is accessed."""
    nbytes = int(np.prod(size)) * np.dtype(kind).itemsize
    pages = -(-nbytes // PAGE) + 2
    memory = mmap.mmap(-1, pages * PAGE)
    kept.append(memory)
    first = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    libc = ctypes.CDLL(None)
    for page in (0, pages - 1):
        assert libc.mprotect(ctypes.c_void_p(first + page * PAGE), ctypes.c_size_t(PAGE), FORBIDDEN) == 0
    begin = first + ((pages - 1) * PAGE - nbytes if at_the_end else PAGE)
    return np.frombuffer((ctypes.c_char * nbytes).from_address(begin), kind).reshape(size)


def last(size: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(size[axis] for axis in LAST)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(24))
def test_no_byte_outside_of_the_arrays_is_accessed(seed: int) -> None:
    chance, kept = random.Random(seed), []
    shape, arithmetic = random_shape(chance), chance.choice((FP32, FP64))
    data, end = draw(shape, seed, arithmetic), chance.choice((False, True))
    arrays = [between_forbidden_pages(kept, last(tensor.shape), arithmetic.stored, end) for tensor in data]
    for array, tensor in zip(arrays, data, strict=True):
        array[:] = tensor.transpose(LAST)
    for direction in DIRECTIONS:
        result = between_forbidden_pages(kept, last(shape.result(direction)), arithmetic.stored, end)
        result[:] = np.nan
        compute(direction, arrays, result, shape, chance.choice((1, 2)))
        assert error(direction, data, result, shape, arithmetic) <= 1, (shape, direction)


def part_of_a_larger(size: tuple[int, ...], kind: str) -> tuple[Any, Any]:
    """An array in which no two rows, pixels or images are adjacent, and the whole of it, filled with NaN."""
    whole = np.full([2 * length for length in size[:3]] + [size[3] + 3], np.nan, kind)
    return whole[::2, ::2, ::2, 1 : 1 + size[3]], whole


@pytest.mark.parametrize("seed", range(100, 124))
def test_arrays_may_be_parts_of_larger_ones(seed: int) -> None:
    chance = random.Random(seed)
    shape = random_shape(chance)
    data, arrays = draw(shape, seed), []
    for tensor in data:
        view, _ = part_of_a_larger(last(tensor.shape), "float32")
        view[:] = tensor.transpose(LAST)
        arrays.append(view)
    for direction in DIRECTIONS:
        result, whole = part_of_a_larger(last(shape.result(direction)), "float32")
        compute(direction, arrays, result, shape, chance.choice((1, 2)))
        assert error(direction, data, result, shape, FP32) <= 1, (shape, direction)
        result[:] = np.nan
        assert np.isnan(whole).all(), (shape, direction)


@pytest.mark.parametrize("threads", [1, 2])
def test_strides_of_a_single_pixel_are_ignored(threads: int) -> None:
    """NumPy gives an axis of length 1 any stride: images transposed from NCHW to NHWC have other ones."""
    shape = Shape(8, 120, 7, 1, 9, (5, 2), (2, 3), (1, 1), (2, 1), 3)
    data = draw(shape, 7)
    assert shape.y[2:] == (1, 1)
    arrays = [np.ascontiguousarray(tensor.transpose(LAST)) for tensor in data]
    for direction in DIRECTIONS:
        result = np.full(last(shape.result(direction)), np.nan, "float32")
        compute(direction, arrays, result, shape, threads)
        assert error(direction, data, result, shape, FP32) <= 1, direction
