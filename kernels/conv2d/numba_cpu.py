"""Convolution and its gradients on CPUs in Numba, for channels-last arrays: chooses the algorithm for each layer.

Groups that divide or fill vectors, depth-wise layers among them, are computed together (`grouped_plan.applies`), other
groups by a thread each or one after the other: 1 x 1 layers that take every pixel as a matrix product, forward passes
and input gradients directly (few channels) or as implicit GEMM, weight gradients by im2col.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any

import numpy as np

from ..arrays import Once, aligned, poisoned, prepared
from ..cpu.packing import Matrix
from ..cpu.simd import HOST
from ..gemm.cpu.blocked import multiply
from ..gemm.cpu.int8_packing import WORD
from ..providers import Call, Prepared
from ..spec import FORWARD, INPUT_GRADIENT, WEIGHT_GRADIENT, Tensors
from . import Shape
from .cpu import grouped_plan
from .cpu.computation import Computation, by_threads, in_order
from .cpu.direct import fits_direct, plan_direct
from .cpu.geometry import (
    ArrayLayout,
    Correlation,
    array_layout,
    forward_correlations,
    has_merged_taps,
    images,
    input_gradient_correlations,
    weights,
)
from .cpu.grouped import plan_grouped
from .cpu.grouped_weight_gradient import plan_grouped_weight_gradient
from .cpu.implicit_gemm import plan_implicit_gemm
from .cpu.matrix_product import plan_matrix_product
from .cpu.weight_gradient import plan_weight_gradient
from .cpu.weight_gradient_few_channels import plan_weight_gradient_few_channels

PROVIDER = "custom"
DEVICES = ("cpu",)

KNOWN = 4096  # cached plans
EXACT_FP32, MOST_OF_BYTES = 2**24, 255 * 128  # largest exact integer; largest product of two bytes
Kernel = Callable[[Correlation, Any, int], Computation]  # (correlation, 1 of its type, threads) -> computation
Planned = Callable[..., None]  # (addresses of x, w and y, perhaps that of an epilogue)
ORDER = {FORWARD: (0, 1, 2), INPUT_GRADIENT: (2, 1, 0), WEIGHT_GRADIENT: (2, 0, 1)}  # indices of x, w, y as A, B, C
LAST, FIRST = (0, 2, 3, 1), (0, 3, 1, 2)  # permutations to channels-last and back


def forward(x: Any, w: Any, y: Any, shape: Shape, threads: int = 1) -> None:
    """Compute y[N, Ho, Wo, F] of x[N, H, W, C] and w[F, Kh, Kw, C / groups], float32 or float64, contiguous channels.
    """
    _compute(FORWARD, x, w, y, shape, threads)


def input_gradient(g: Any, w: Any, dx: Any, shape: Shape, threads: int = 1) -> None:
    """Compute dx of g, the gradient of y; layouts as in `forward`."""
    _compute(INPUT_GRADIENT, dx, w, g, shape, threads)


def weight_gradient(x: Any, g: Any, dw: Any, shape: Shape, threads: int = 1) -> None:
    """Compute dw of x and g; layouts as in `forward`. A non-contiguous g or dw is copied."""
    whole = dw if dw.flags.c_contiguous else np.empty(dw.shape, dw.dtype)
    _compute(WEIGHT_GRADIENT, x, whole, np.ascontiguousarray(g), shape, threads)
    if whole is not dw:
        dw[:] = whole


def _compute(direction: str, x: Any, w: Any, y: Any, shape: Shape, threads: int) -> None:
    """Compute one of x, w and y from the other two; y may stand for its gradient."""
    layouts = [array_layout(array) for array in (x, w, y)]
    without_address = (layout._replace(address=0) for layout in layouts)
    planned(direction, *without_address, shape, x.dtype.type, threads)(*(layout.address for layout in layouts))


@lru_cache(KNOWN)
def planned(
    direction: str,
    x: ArrayLayout,
    w: ArrayLayout,
    y: ArrayLayout,
    shape: Shape,
    kind: type[np.floating[Any]],
    threads: int,
) -> Planned:
    """The function that computes a direction for arrays of these layouts, called with the addresses of x, w and y.

    A weight gradient and the pixels of y must be contiguous. Forward passes and input gradients of one group take the
    address of an epilogue as well.
    """
    one, zero = kind(1), kind(0)
    if grouped_plan.applies(shape, one.itemsize):
        computation = _grouped(direction, x, w, y, shape, one, threads)
        return partial(_correlate, computation, direction == INPUT_GRADIENT)
    if _is_matrix_product(shape, x, y):
        products = [_factors(direction, *matrices) for matrices in _matrices_by_group(shape, x, w, y)]
        return partial(_multiply, products, direction, one, zero, threads)
    if threads > 1 and shape.groups % threads == 0:
        of_groups = by_threads(_correlations(direction, x, w, y, shape, one, 1), one, threads)
        return partial(_correlate, of_groups, direction == INPUT_GRADIENT)
    whole = in_order(_correlations(direction, x, w, y, shape, one, threads), one)
    return partial(_correlate, whole, direction == INPUT_GRADIENT)


def _correlations(
    direction: str, x: ArrayLayout, w: ArrayLayout, y: ArrayLayout, shape: Shape, one: Any, threads: int
) -> list[Computation]:
    backwards = direction == INPUT_GRADIENT
    works = input_gradient_correlations(y, w, x, shape) if backwards else forward_correlations(x, w, y, shape)
    return [_kernel(direction, work, one.itemsize)(work, one, threads) for work in works]


def computations(
    direction: str, x: ArrayLayout, w: ArrayLayout, y: ArrayLayout, shape: Shape, one: Any, threads: int
) -> list[Computation]:
    """What computes a direction of one group, for a program; layouts as in `planned`.

    Source and target are x and y, but y and x for the input gradient.
    """
    if not _is_matrix_product(shape, x, y):
        return _correlations(direction, x, w, y, shape, one, threads)
    (matrices,) = _matrices_by_group(shape, x, w, y)
    of_weights = direction == WEIGHT_GRADIENT
    order = (2, 0, 1) if of_weights else (0, 1, 2)  # which of source, weights and target are A, B and C
    return [plan_matrix_product(*_factors(direction, *matrices), order, one, threads, split_k=of_weights)]


def _grouped(
    direction: str, x: ArrayLayout, w: ArrayLayout, y: ArrayLayout, shape: Shape, one: Any, threads: int
) -> Computation:
    if direction == WEIGHT_GRADIENT:
        return plan_grouped_weight_gradient(x, w, y, shape, one, threads)
    return plan_grouped(direction, x, w, y, shape, one, threads)


def _multiply(
    products: list[tuple[Matrix, Matrix, Matrix]], direction: str, one: Any, zero: Any, threads: int,
    x: int, w: int, y: int, *epilogue: int,
) -> None:
    order, addresses = ORDER[direction], (x, w, y)
    for matrices in products:
        a, b, c = (
            Matrix(matrix[0] + addresses[layout], *matrix[1:]) for matrix, layout in zip(matrices, order, strict=True)
        )
        multiply(one, zero, a, b, c, threads, *epilogue)


def _correlate(compute: Planned, backwards: bool, x: int, w: int, y: int, *epilogue: int) -> None:
    source, target = (y, x) if backwards else (x, y)
    compute(source, w, target, *epilogue)


def _kernel(direction: str, work: Correlation, size: int) -> Kernel:
    if direction != WEIGHT_GRADIENT:
        return plan_direct if fits_direct(work, size) else plan_implicit_gemm
    return plan_weight_gradient_few_channels if has_merged_taps(work, size) else plan_weight_gradient


def _factors(direction: str, x: Matrix, w: Matrix, y: Matrix) -> tuple[Matrix, Matrix, Matrix]:
    """A, B and C = A B of a direction, from pixels x channels, filters x channels and pixels x filters."""
    if direction == FORWARD:
        return x, _transposed(w), y
    return (y, w, x) if direction == INPUT_GRADIENT else (_transposed(y), x, w)


def forward_bytes(x: Any, w: Any, y: Any, shape: Shape, threads: int = 1) -> None:
    """Compute y, int32[N, Ho, Wo, F], of x, uint8[N, H, W, C], and w, int8[F, Kh, Kw, C / groups]: sums modulo 2^32.

    The channels of a group must be a multiple of four, as four bytes form one word; no padding.
    """
    if not HOST.multiplies_bytes:
        _forward_bytes_by_floats(x, w, y, shape, threads)
        return
    words = [array.view(np.int32) for array in (x, w)]
    layouts = [array_layout(array) for array in (*words, y)]
    without_address = (layout._replace(address=0) for layout in layouts)
    for compute in _plan_bytes(*without_address, shape, threads):
        compute(*(layout.address for layout in layouts))


@lru_cache(KNOWN)
def _plan_bytes(x: ArrayLayout, w: ArrayLayout, y: ArrayLayout, shape: Shape, threads: int) -> list[Computation]:
    correlations = forward_correlations(x, w, y, replace(shape, channels=shape.channels // WORD))
    return [plan_implicit_gemm(work, np.int32(1), threads) for work in correlations]


def _forward_bytes_by_floats(x: Any, w: Any, y: Any, shape: Shape, threads: int) -> None:
    """Without int8 dot products: compute in the shorter float type that holds all sums exactly."""
    kind = np.float32 if shape.inner(FORWARD) * MOST_OF_BYTES < EXACT_FP32 else np.float64
    sums = np.empty(y.shape, kind)
    forward(x.astype(kind), w.astype(kind), sums, shape, threads)
    y[:] = sums.astype(np.int64).astype(np.int32)


def prepare(shape: Shape, direction: str, data: Tensors, device: str, threads: int) -> list[Prepared]:
    """The only variant. See `Prepared`."""
    size, convert = shape.result(direction), Once(lambda tensor: aligned(tensor.transpose(LAST)))
    result = poisoned(tuple(size[axis] for axis in LAST), data.x.dtype.name)
    compute = {FORWARD: forward, INPUT_GRADIENT: input_gradient, WEIGHT_GRADIENT: weight_gradient}[direction]

    def bind(data: Tensors) -> Call:
        x, w, g = map(convert, data)
        one, other = {FORWARD: (x, w), INPUT_GRADIENT: (g, w), WEIGHT_GRADIENT: (x, g)}[direction]
        return partial(compute, one, other, result, shape, threads)

    return [prepared(bind, data, result, lambda array: array.transpose(FIRST))]


def _is_matrix_product(shape: Shape, *arrays: ArrayLayout) -> bool:
    """Whether the layer is a matrix product: 1 x 1 taps, and pixels at a uniform distance."""
    every = shape.kernel == (1, 1) and shape.stride == (1, 1) and shape.padding == (0, 0)
    return every and all(_has_uniform_pixel_stride(array) for array in arrays)


def _has_uniform_pixel_stride(array: ArrayLayout) -> bool:
    _, image, row, pixel, _ = images(array, 0, 1)
    return row == array.shape[2] * pixel and image == array.shape[1] * row


def _matrices_by_group(
    shape: Shape, x: ArrayLayout, w: ArrayLayout, y: ArrayLayout
) -> Iterator[tuple[Matrix, Matrix, Matrix]]:
    """Pixels x channels, filters x channels and pixels x filters of each group."""
    for group in range(shape.groups):
        layouts = [images(array, group, shape.groups) for array in (x, y)]
        source, target = (
            Matrix(matrix.address, math.prod(array.shape[:3]), matrix.channels, matrix.pixel, array.itemsize)
            for matrix, array in zip(layouts, (x, y), strict=True)
        )
        by = weights(w, group, shape.groups)
        yield source, Matrix(by.address, target.columns, source.columns, by.filter, by.channel), target


def _transposed(whole: Matrix) -> Matrix:
    return Matrix(whole.address, whole.columns, whole.rows, whole.column_stride, whole.row_stride)
