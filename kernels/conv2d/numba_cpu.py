"""Convolution and its gradients in Numba, with the channels last: products of what the taps see, block by block.

Each thread has output pixels or filters of its own. A 1 x 1 convolution that takes every pixel is a matrix product.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any

import numpy as np

from ..arrays import aligned, poisoned, prepared
from ..cpu.epilogue import Epilogue
from ..cpu.packing import Matrix
from ..cpu.simd import OWN
from ..gemm.cpu.int8_packing import WORD
from ..gemm.numba_cpu import multiply
from ..providers import Prepared
from ..spec import FORWARD, INPUT_GRADIENT, WEIGHT_GRADIENT, Tensors
from . import Shape
from .cpu import depthwise
from .cpu.direct import slide, slides
from .cpu.geometry import (
    Computation,
    Correlation,
    Lying,
    forward_works,
    gradient_works,
    images,
    lying,
    side_by_side,
    weights,
)
from .cpu.implicit_gemm import correlate
from .cpu.weight_gradient import weigh
from .cpu.weight_gradient_few_channels import weigh_few

PROVIDER = "custom"
DEVICES = ("cpu",)

KNOWN = 4096  # layers of which is kept how they are computed
EXACT_FP32, MOST_OF_BYTES = 2**24, 255 * 128  # whole numbers up to the first; the largest product of two bytes
Kernel = Callable[[Correlation, Any, int], Computation]  # of a correlation, 1 of its type, and threads
Planned = Callable[..., None]  # of the addresses of x, w and y, and perhaps an Epilogue
ORDER = {FORWARD: (0, 1, 2), INPUT_GRADIENT: (2, 1, 0), WEIGHT_GRADIENT: (2, 0, 1)}  # of x, w, y as A, B, C
LAST, FIRST = (0, 2, 3, 1), (0, 3, 1, 2)  # axes that bring the channels to the end, and back


def forward(x: Any, w: Any, y: Any, shape: Shape, threads: int = 1) -> None:
    """y[N, Ho, Wo, F] of x[N, H, W, C] and w[F, Kh, Kw, C / groups], float32 or float64, channels side by side."""
    _compute(FORWARD, x, w, y, shape, threads)


def input_gradient(g: Any, w: Any, dx: Any, shape: Shape, threads: int = 1) -> None:
    """dx of g, the gradient of y; layouts as in `forward`."""
    _compute(INPUT_GRADIENT, dx, w, g, shape, threads)


def weight_gradient(x: Any, g: Any, dw: Any, shape: Shape, threads: int = 1) -> None:
    """dw of x and g; layouts as in `forward`. Pixels of g and weights that do not lie in one piece are copied."""
    whole = dw if dw.flags.c_contiguous else np.empty(dw.shape, dw.dtype)
    _compute(WEIGHT_GRADIENT, x, whole, np.ascontiguousarray(g), shape, threads)
    if whole is not dw:
        dw[:] = whole


def _compute(direction: str, x: Any, w: Any, y: Any, shape: Shape, threads: int) -> None:
    """One of the three from the other two; y stands for its gradient as well."""
    if depthwise.applies(shape):
        depthwise.compute(direction, x, w, y, shape, threads)
        return
    places = [lying(array) for array in (x, w, y)]
    anywhere = (place._replace(address=0) for place in places)
    planned(direction, *anywhere, shape, x.dtype.type, threads)(*(place.address for place in places))


@lru_cache(KNOWN)
def planned(
    direction: str, x: Lying, w: Lying, y: Lying, shape: Shape, kind: type[np.floating[Any]], threads: int
) -> Planned:
    """What computes a direction of arrays that lie like these, called with the addresses of x, w and y.

    Not of a depth-wise convolution. Weights, of their gradient, and pixels of y lie in one piece. The forward pass of
    one group takes an `Epilogue` as well.
    """
    one, zero = kind(1), kind(0)
    if _takes_every_pixel(shape, x, y):
        products = [_factors(direction, *matrices) for matrices in _by_group(shape, x, w, y)]
        return partial(_multiply, products, direction, one, zero, threads)
    backwards = direction == INPUT_GRADIENT
    works = gradient_works(y, w, x, shape) if backwards else forward_works(x, w, y, shape)
    computations = [_kernel(direction, work, one.itemsize)(work, one, threads) for work in works]
    return partial(_correlate, computations, backwards)


def _multiply(
    products: list[tuple[Matrix, Matrix, Matrix]], direction: str, one: Any, zero: Any, threads: int,
    x: int, w: int, y: int, *epilogue: Epilogue,
) -> None:
    order, at = ORDER[direction], (x, w, y)
    for matrices in products:
        a, b, c = (Matrix(each[0] + at[place], *each[1:]) for each, place in zip(matrices, order, strict=True))
        multiply(one, zero, a, b, c, threads, *epilogue)


def _correlate(
    computations: list[Computation], backwards: bool, x: int, w: int, y: int, *epilogue: Epilogue
) -> None:
    source, target = (y, x) if backwards else (x, y)
    for compute in computations:
        compute(source, w, target, *epilogue)


def _kernel(direction: str, work: Correlation, size: int) -> Kernel:
    if direction != WEIGHT_GRADIENT:
        return slide if slides(work, size) else correlate
    return weigh_few if side_by_side(work, size) else weigh


def _factors(direction: str, x: Matrix, w: Matrix, y: Matrix) -> tuple[Matrix, Matrix, Matrix]:
    """A, B and C = A B of a direction, of pixels by channels, filters by channels and pixels by filters."""
    if direction == FORWARD:
        return x, _transposed(w), y
    return (y, w, x) if direction == INPUT_GRADIENT else (_transposed(y), x, w)


def forward_bytes(x: Any, w: Any, y: Any, shape: Shape, threads: int = 1) -> None:
    """y, int32[N, Ho, Wo, F], of x, uint8[N, H, W, C], and w, int8[F, Kh, Kw, C / groups]: sums, modulo 2^32.

    Each group's channels are a multiple of four, so that four bytes are a number of a tile; no padding.
    """
    if not OWN.multiplies_bytes:
        _forward_bytes_by_floats(x, w, y, shape, threads)
        return
    words = [array.view(np.int32) for array in (x, w)]
    places = [lying(array) for array in (*words, y)]
    anywhere = (place._replace(address=0) for place in places)
    for compute in _by_bytes(*anywhere, shape, threads):
        compute(*(place.address for place in places))


@lru_cache(KNOWN)
def _by_bytes(x: Lying, w: Lying, y: Lying, shape: Shape, threads: int) -> list[Computation]:
    works = forward_works(x, w, y, replace(shape, channels=shape.channels // WORD))
    return [correlate(work, np.int32(1), threads) for work in works]


def _forward_bytes_by_floats(x: Any, w: Any, y: Any, shape: Shape, threads: int) -> None:
    """Where the processor multiplies no bytes: in the shorter type that has all sums exactly."""
    kind = np.float32 if shape.inner(FORWARD) * MOST_OF_BYTES < EXACT_FP32 else np.float64
    sums = np.empty(y.shape, kind)
    forward(x.astype(kind), w.astype(kind), sums, shape, threads)
    y[:] = sums.astype(np.int64).astype(np.int32)


def prepare(shape: Shape, direction: str, data: Tensors, device: str, threads: int) -> list[Prepared]:
    """The one way that there is. See `Prepared`."""
    x, w, g = (aligned(tensor.transpose(LAST)) for tensor in data)
    work = {FORWARD: (forward, x, w), INPUT_GRADIENT: (input_gradient, g, w), WEIGHT_GRADIENT: (weight_gradient, x, g)}
    compute, one, other = work[direction]
    size = shape.result(direction)
    result = poisoned(tuple(size[axis] for axis in LAST), x.dtype.name)
    call = partial(compute, one, other, result, shape, threads)
    return [prepared(call, result, lambda array: array.transpose(FIRST))]


def _takes_every_pixel(shape: Shape, *arrays: Lying) -> bool:
    """Whether it is a product of matrices: each output is of one pixel, and the pixels are equally far apart."""
    every = shape.kernel == (1, 1) and shape.stride == (1, 1) and shape.padding == (0, 0)
    return every and all(_equally_far(array) for array in arrays)


def _equally_far(array: Lying) -> bool:
    _, image, row, pixel, _ = images(array, 0, 1)
    return row == array.shape[2] * pixel and image == array.shape[1] * row


def _by_group(shape: Shape, x: Lying, w: Lying, y: Lying) -> Iterator[tuple[Matrix, Matrix, Matrix]]:
    """Pixels by channels, filters by channels, and pixels by filters of each group."""
    for group in range(shape.groups):
        pictures = [images(array, group, shape.groups) for array in (x, y)]
        source, target = (
            Matrix(each.address, math.prod(array.shape[:3]), each.channels, each.pixel, array.itemsize)
            for each, array in zip(pictures, (x, y), strict=True)
        )
        by = weights(w, group, shape.groups)
        yield source, Matrix(by.address, target.columns, source.columns, by.filter, by.channel), target


def _transposed(whole: Matrix) -> Matrix:
    return Matrix(whole.address, whole.columns, whole.rows, whole.right, whole.down)
