"""Convolution and its gradients in Numba, with the channels last: products of what the taps see, block by block.

Each thread has output pixels or filters of its own. A 1 x 1 convolution that takes every pixel is a matrix product.
"""

import math
from collections.abc import Collection, Iterator
from typing import Any

import numpy as np
from numba import prange

from ..cpu.block import WORD, Left, multiply_block, sliver_width
from ..cpu.blocking import blocks, row_pitch, share_of, shares
from ..cpu.compiled import compiled, parallel
from ..cpu.gather import Pixels, folded, gather_joined, gather_tap
from ..cpu.moving import bytes_of, clear, write
from ..cpu.operands import Matrix, clear_run, pack_slivers
from ..cpu.simd import ROWS
from ..cpu.walk import Chunk, Correlation, flat, forward_work, gradient_works, images, weights
from ..cpu.weigh import weigh
from ..cpu.workspace import workspace
from ..gemm.numba_cpu import multiply
from ..spec import FORWARD, INPUT_GRADIENT, WEIGHT_GRADIENT, Tensors
from . import Shape

LAST, FIRST = (0, 2, 3, 1), (0, 3, 1, 2)  # axes that bring the channels to the end, and back
_pitch, _share = compiled(row_pitch), compiled(share_of)


def forward(x: Any, w: Any, y: Any, shape: Shape, threads: int = 1) -> None:
    """y[N, Ho, Wo, F] of x[N, H, W, C] and w[F, Kh, Kw, C / groups], float32 or float64, channels side by side."""
    if _takes_every_pixel(shape, x, y):
        for source, by, target in _by_group(shape, x, w, y):
            _product(x, source, _transposed(by), target, threads)
        return
    for work in forward_work(x, w, y, shape):
        _run(work, x.dtype.type(1), threads)


def input_gradient(g: Any, w: Any, dx: Any, shape: Shape, threads: int = 1) -> None:
    """dx of g, the gradient of y; layouts as in `forward`."""
    if _takes_every_pixel(shape, g, dx):
        for target, by, source in _by_group(shape, dx, w, g):
            _product(g, source, by, target, threads)
        return
    for work in gradient_works(g, w, dx, shape):
        _run(work, g.dtype.type(1), threads)


def weight_gradient(x: Any, g: Any, dw: Any, shape: Shape, threads: int = 1) -> None:
    """dw of x and g; layouts as in `forward`."""
    if _takes_every_pixel(shape, x, g):
        for source, into, gradient in _by_group(shape, x, dw, g):
            _product(x, _transposed(gradient), source, into, threads)
        return
    for work in forward_work(x, dw, g, shape):
        weigh(work, x.dtype.type(1), threads)


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


def _takes_every_pixel(shape: Shape, *arrays: Any) -> bool:
    """Whether it is a product of matrices: each output is of one pixel, and the pixels are equally far apart."""
    every = shape.kernel == (1, 1) and shape.stride == (1, 1) and shape.padding == (0, 0)
    return every and all(
        (array.strides[0], array.strides[1]) == (array.shape[1] * array.strides[1], array.shape[2] * array.strides[2])
        for array in arrays
    )


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


def _product(like: Any, a: Matrix, b: Matrix, c: Matrix, threads: int) -> None:
    multiply(like.dtype.type(1), like.dtype.type(0), a, b, c, threads)


def _run(work: Correlation, one: Any, threads: int) -> None:
    sizes = blocks(one.itemsize)
    pixels = work.images * work.vertical.outputs * work.horizontal.outputs
    steps = work.vertical.taps * work.horizontal.taps * work.source.channels
    parts = shares(threads, pixels, work.target.channels, max(steps, 1), one.itemsize, False)
    memory = workspace(threads * sizes.nbytes)
    if threads == 1:
        _correlate(one, work, 0, work.images * work.vertical.outputs, 0, work.target.channels, memory, sizes)
    else:
        _correlate_on_threads(parts, one, flat(work), memory, sizes)


@parallel
def _correlate_on_threads(parts: Any, like: Any, numbers: Any, memory: Any, sizes: Any) -> None:
    work = folded(numbers)
    rows, filters = work.images * work.vertical.outputs, work.target.channels
    tall, wide = _share(rows, parts.down, 1), _share(filters, parts.across, sliver_width(like))
    for thread in prange(parts.down * parts.across):
        row, first = thread // parts.across * tall, thread % parts.across * wide
        if row < rows and first < filters:
            own = memory + thread * sizes.nbytes
            _correlate(like, folded(numbers), row, min(tall, rows - row), first, min(wide, filters - first), own, sizes)


@compiled
def _correlate(
    like: Any, work: Any, row: Any, rows: Any, first: Any, filters: Any, memory: Any, sizes: Any
) -> None:
    """Some rows of outputs, and some filters, by one thread."""
    taps, channels = work.vertical.taps * (work.horizontal.taps // work.joined), work.source.channels * work.joined
    if taps == 0:
        _clear(like, work, row, rows, first, filters)
    at_once = max(1, sizes.steps // channels)
    for filter_ in range(first, first + filters, sizes.columns):
        columns = min(sizes.columns, first + filters - filter_)
        for tap in range(0, taps, at_once):
            for channel in range(0, channels, sizes.steps):
                chunk = Chunk(tap, min(at_once, taps - tap), channel, min(sizes.steps, channels - channel))
                _pack_weights(like, memory, work, chunk, filter_, columns)
                add = tap > 0 or channel > 0
                _correlate_chunk(like, work, chunk, row, rows, filter_, columns, add, memory, sizes)


@compiled
def _correlate_chunk(
    like: Any, work: Any, chunk: Any, row: Any, rows: Any, filter_: Any, filters: Any, add: Any, memory: Any, sizes: Any
) -> None:
    """Some taps and channels, for all these rows: block by block of as many pixels as fit."""
    outputs = work.horizontal.outputs
    at_once, span = max(1, sizes.rows // outputs), min(outputs, sizes.rows)
    pitch, target = _pitch(chunk.taps * chunk.channels, bytes_of(like)), memory + sizes.left
    for here in range(row, row + rows, at_once):
        for first in range(0, outputs, span):
            pixels = Pixels(here, min(at_once, row + rows - here), first, min(span, outputs - first))
            count = pixels.rows * pixels.width
            _gather(like, target, pitch, work, chunk, pixels)
            left = Left(target, pitch, count, 0, 0, False)
            places = memory + sizes.places if _scattered(work) else 0
            c = _target(like, work, pixels, filter_, filters, places)
            steps = chunk.taps * chunk.channels
            multiply_block(like, left, memory, steps, c, places, add, memory + sizes.beside)


@compiled
def _scattered(work: Any) -> Any:
    """Whether the target's pixels are not equally far apart."""
    target = work.target
    along = work.horizontal.outputs * target.pixel
    return target.row != along or target.image != work.vertical.outputs * target.row


@compiled
def _target(like: Any, work: Any, pixels: Any, filter_: Any, filters: Any, places: Any) -> Any:
    """Where the outputs of a block belong; if they are scattered, each one's place is written to `places`."""
    size = bytes_of(like)
    target, outputs = work.target, work.horizontal.outputs
    address, count = target.address + filter_ * size, pixels.rows * pixels.width
    if places == 0:
        address += (pixels.row * outputs + pixels.first) * target.pixel
        return Matrix(address, count, filters, target.pixel, size)
    for row in range(pixels.rows):
        image, output = divmod(pixels.row + row, work.vertical.outputs)
        begin = image * target.image + output * target.row + pixels.first * target.pixel
        for place in range(pixels.width):
            write(begin + place * target.pixel, places + (row * pixels.width + place) * WORD)
    return Matrix(address, count, filters, 0, size)


@compiled
def _clear(like: Any, work: Any, row: Any, rows: Any, first: Any, filters: Any) -> None:
    """No tap reaches these outputs."""
    size = bytes_of(like)
    target = work.target
    for here in range(row, row + rows):
        image, output = divmod(here, work.vertical.outputs)
        for place in range(work.horizontal.outputs):
            to = target.address + image * target.image + output * target.row + place * target.pixel + first * size
            for filter_ in range(filters):
                clear(like, to + filter_ * size)


@compiled
def _gather(like: Any, target: Any, pitch: Any, work: Any, chunk: Any, pixels: Any) -> None:
    """What some taps of the pixels see, tap by tap; then rows of zeros up to a whole tile."""
    size = bytes_of(like)
    per_row = work.horizontal.taps // work.joined
    for tap in range(chunk.taps):
        down, right = divmod(chunk.tap + tap, per_row)
        to = target + tap * chunk.channels * size
        if work.joined > 1:
            gather_joined(like, to, pitch, work, pixels, down, chunk.channel, chunk.channels)
        else:
            gather_tap(like, to, pitch, work, pixels, down, right, chunk.channel, chunk.channels)
    count = pixels.rows * pixels.width
    for row in range(count, (count + ROWS - 1) // ROWS * ROWS):
        clear_run(like, target + row * pitch, chunk.taps * chunk.channels)


@compiled
def _pack_weights(like: Any, target: Any, work: Any, chunk: Any, filter_: Any, filters: Any) -> None:
    """Slivers of the filters, tap by tap."""
    size = bytes_of(like)
    width, steps, per_row = sliver_width(like), chunk.taps * chunk.channels, work.horizontal.taps // work.joined
    for tap in range(chunk.taps):
        down, right = divmod(chunk.tap + tap, per_row)
        there = work.weights.address + down * work.weights.down + right * work.weights.right
        there += chunk.channel * work.weights.channel + filter_ * work.weights.filter
        matrix = Matrix(there, chunk.channels, filters, work.weights.channel, work.weights.filter)
        pack_slivers(like, target + tap * chunk.channels * width * size, width, matrix, steps)
