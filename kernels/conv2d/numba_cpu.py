"""Convolution and its gradients in Numba, with the channels last: products of what the taps see, block by block.

Each thread has output pixels or filters of its own. A 1 x 1 convolution that takes every pixel is a matrix product.
"""

import math
from collections.abc import Callable, Collection, Iterator
from typing import Any

import numpy as np

from ..arrays import aligned, poison, poisoned
from ..cpu import depthwise
from ..cpu.correlate import correlate
from ..cpu.operands import Matrix
from ..cpu.walk import Correlation, forward_works, gradient_works, images, weights
from ..cpu.weigh import weigh
from ..cpu.weigh_few import weigh_few
from ..gemm.numba_cpu import multiply
from ..spec import FORWARD, INPUT_GRADIENT, WEIGHT_GRADIENT, Prepared, Tensors
from . import Shape

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
    elif _takes_every_pixel(shape, x, y):
        for matrices in _by_group(shape, x, w, y):
            multiply(x.dtype.type(1), x.dtype.type(0), *_factors(direction, *matrices), threads)
    else:
        works = gradient_works(y, w, x, shape) if direction == INPUT_GRADIENT else forward_works(x, w, y, shape)
        for work in works:
            _kernel(direction, work)(work, x.dtype.type(1), threads)


def _kernel(direction: str, work: Correlation) -> Callable[[Correlation, Any, int], None]:
    if direction != WEIGHT_GRADIENT:
        return correlate
    return weigh_few if work.joined > 1 else weigh


def _factors(direction: str, x: Matrix, w: Matrix, y: Matrix) -> tuple[Matrix, Matrix, Matrix]:
    """A, B and C = A B of a direction, of pixels by channels, filters by channels and pixels by filters."""
    if direction == FORWARD:
        return x, _transposed(w), y
    return (y, w, x) if direction == INPUT_GRADIENT else (_transposed(y), x, w)


def run(
    data: Tensors, shape: Shape, device: str, directions: Collection[str], stored: str = "float32", threads: int = 1
) -> dict[str, Any]:
    """y, dx, dw by direction, NCHW or OIHW, into memory that is filled with NaN before; see conv2d/vendor.py."""
    x, w, g = (np.ascontiguousarray(tensor.transpose(LAST)) for tensor in data)
    work = {FORWARD: (forward, x, w), INPUT_GRADIENT: (input_gradient, g, w), WEIGHT_GRADIENT: (weight_gradient, x, g)}
    results = {}
    for direction in directions:
        function, one, other = work[direction]
        size = [shape.result(direction)[axis] for axis in LAST]
        result = np.full(size, np.nan, stored)
        function(one, other, result, shape, threads)
        results[direction] = result.transpose(FIRST)
    return results


def prepare(shape: Shape, direction: str, data: Tensors, device: str, threads: int) -> list[Prepared]:
    """The one way that there is. See `Prepared`."""
    x, w, g = (aligned(tensor.transpose(LAST)) for tensor in data)
    work = {FORWARD: (forward, x, w), INPUT_GRADIENT: (input_gradient, g, w), WEIGHT_GRADIENT: (weight_gradient, x, g)}
    compute, one, other = work[direction]
    size = shape.result(direction)
    result = poisoned(tuple(size[axis] for axis in LAST), x.dtype.name)
    return [
        Prepared(
            lambda: compute(one, other, result, shape, threads),
            lambda: result.transpose(FIRST),
            lambda: result.fill(poison(result.dtype.name)),
        )
    ]


def _takes_every_pixel(shape: Shape, *arrays: Any) -> bool:
    """Whether it is a product of matrices: each output is of one pixel, and the pixels are equally far apart."""
    every = shape.kernel == (1, 1) and shape.stride == (1, 1) and shape.padding == (0, 0)
    return every and all(_equally_far(array) for array in arrays)


def _equally_far(array: Any) -> bool:
    _, image, row, pixel, _ = images(array, 0, 1)
    return row == array.shape[2] * pixel and image == array.shape[1] * row


def _by_group(shape: Shape, x: Any, w: Any, y: Any) -> Iterator[tuple[Matrix, Matrix, Matrix]]:
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
