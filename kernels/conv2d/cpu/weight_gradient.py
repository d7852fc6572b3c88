"""Weight gradient: the product of the output gradient with im2col of the source, summed over all pixels.

Threads divide filters and taps, and also pixels (split-K) where those are too few.
"""

from typing import Any

from ...cpu.blocking import BlockSizes, Partition, block_sizes, largest_part, partition
from ...cpu.compiled import compiled
from ...cpu.function_pointer import FunctionPointer, call_pointer, function_pointer
from ...cpu.load_store import bytes_of
from ...cpu.macrokernel import NO_PREFETCH, PackedA, multiply_block, sliver_width
from ...cpu.packing import Matrix, pack_slivers, scale, submatrix
from ...cpu.parallel import parallel_for
from ...cpu.simd import ROWS
from ...cpu.split_k import partial_sums, reduce_partial_sums
from ...cpu.stored_arguments import Stored, reading
from .computation import Computation
from .geometry import Correlation, shifted
from .im2col import PixelBlock, gather_columns, gather_tap

_part_size, _shifted = compiled(largest_part), compiled(shifted)


def plan_weight_gradient(work: Correlation, one: Any, threads: int) -> Computation:
    """The function that fills the weights of a forward correlation with their gradient.

    Its target is the output gradient. The weights of a filter and the pixels of the target must be contiguous.
    """
    size, sizes = one.itemsize, block_sizes(one.itemsize)
    filters, columns = work.target.channels, work.vertical.taps * work.horizontal.taps * work.source.channels
    rows, outputs = work.images * work.vertical.outputs, work.horizontal.outputs
    parts = partition(threads, filters, columns, rows * outputs, size)
    packed = parts.rows * parts.columns * parts.steps * sizes.nbytes
    nbytes, pixels = packed + (parts.steps - 1) * filters * columns * size, PixelBlock(0, rows, 0, outputs)

    dw = Matrix(0, filters, columns, work.weights.filter, size)
    pointer = function_pointer(_add_gradient, one, work, pixels, 0, 0, dw, 0, sizes)
    return Computation(_compute, one, Stored(work, pixels, dw, parts, sizes, pointer, packed), threads, nbytes)


_read_stored = reading(Correlation, PixelBlock, Matrix, Partition, BlockSizes, FunctionPointer, int)


@compiled
def _compute(
    like: Any, stored: Any, threads: Any, source: Any, weights: Any, target: Any, memory: Any, _epilogue: Any
) -> None:
    work, pixels, whole, parts, sizes, pointer, packed = _read_stored(stored)
    here = _shifted(work, source, weights, target)
    dw = Matrix(here.weights.address, whole.rows, whole.columns, whole.row_stride, whole.column_stride)
    if threads == 1:
        call_pointer(_add_gradient, pointer, (like, here, pixels, 0, 0, dw, memory, sizes))
    else:
        arguments = (pointer, parts, like, here, dw, memory, memory + packed, sizes)
        parallel_for(_add_gradient_part, parts.rows * parts.columns * parts.steps, arguments)
        if parts.steps > 1:
            reduce_partial_sums(parts, like, dw, memory + packed)


@compiled
def _add_gradient_part(
    thread: Any, pointer: Any, parts: Any, like: Any, work: Any, dw: Any, memory: Any, sums: Any, sizes: Any
) -> None:
    tall, wide = _part_size(dw.rows, parts.rows, ROWS), _part_size(dw.columns, parts.columns, sliver_width(like))
    rows, outputs = work.images * work.vertical.outputs, work.horizontal.outputs
    deep, split = _part_size(rows, parts.steps, 1), thread // (parts.rows * parts.columns)
    filter_, column = thread // parts.columns % parts.rows * tall, thread % parts.columns * wide
    if filter_ < dw.rows and column < dw.columns:
        pixels = PixelBlock(min(split * deep, rows), min(deep, max(0, rows - split * deep)), 0, outputs)
        into = submatrix(partial_sums(like, dw, sums, split), filter_, column, tall, wide)
        call_pointer(
            _add_gradient, pointer, (like, work, pixels, filter_, column, into, memory + thread * sizes.nbytes, sizes)
        )


@compiled
def _add_gradient(
    like: Any, work: Any, whole: Any, filter_: Any, column: Any, dw: Any, memory: Any, sizes: Any
) -> None:
    """The gradient from some output rows, by one thread; dw begins at that filter and column."""
    at_once, span = max(1, sizes.steps // whole.width), min(whole.width, sizes.steps)
    if whole.rows == 0:
        scale(like - like, dw)
    for right in range(0, dw.columns, sizes.columns):
        columns = min(sizes.columns, dw.columns - right)
        for row in range(whole.row, whole.row + whole.rows, at_once):
            for first in range(0, whole.width, span):
                pixels = PixelBlock(
                    row, min(at_once, whole.row + whole.rows - row), first, min(span, whole.width - first)
                )
                add = row > whole.row or first > 0
                _gather_slivers(like, memory, work, pixels, column + right, columns)
                for down in range(0, dw.rows, sizes.rows):
                    c = submatrix(dw, down, right, sizes.rows, sizes.columns)
                    _multiply_block(like, work, pixels, filter_ + down, c, add, memory, sizes)


@compiled
def _multiply_block(like: Any, work: Any, pixels: Any, filter_: Any, c: Any, add: Any, memory: Any, sizes: Any) -> None:
    size = bytes_of(like)
    g, steps = work.target, pixels.rows * pixels.width
    address = g.address + (pixels.row * work.horizontal.outputs + pixels.first) * g.pixel + filter_ * size
    panels = memory + sizes.packed_a
    pack_slivers(like, panels, ROWS, Matrix(address, steps, c.rows, g.pixel, size), steps)
    left = PackedA(panels, steps * size, c.rows, 0, 0, True)
    multiply_block(like, left, memory, steps, c, add, memory + sizes.scratch, NO_PREFETCH)


@compiled
def _gather_slivers(like: Any, target: Any, work: Any, pixels: Any, first: Any, columns: Any) -> None:
    """Gather slivers of the im2col matrix; by whole taps where a sliver lies within a tap."""
    size = bytes_of(like)
    width, channels = sliver_width(like), work.source.channels
    for column in range(0, columns, width):
        to, count = target + column * pixels.rows * pixels.width * size, min(width, columns - column)
        tap, channel = divmod(first + column, channels)
        if count == width and channel + width <= channels:
            down, right = divmod(tap, work.horizontal.taps)
            gather_tap(like, to, width * size, work, pixels, down, right, channel, width)
        else:
            gather_columns(like, to, width, work, pixels, first + column, count)
