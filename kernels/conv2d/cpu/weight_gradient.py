"""The weights' gradient in Numba: the output's gradient times what the taps see, summed over all pixels.

Threads share filters and taps out, and pixels where that leaves too little: their sums are then added at the end.
"""

from typing import Any

from ...cpu.blocking import blocks, share_of, shares
from ...cpu.compiled import compiled
from ...cpu.function_pointer import address_of, call_at
from ...cpu.load_store import bytes_of
from ...cpu.macrokernel import NOTHING, Left, multiply_block, sliver_width
from ...cpu.packing import Matrix, pack_slivers, part, scale
from ...cpu.parallel import in_team
from ...cpu.simd import ROWS
from ...cpu.split_k import add_layers, layer_of
from ...cpu.workspace import workspace
from .geometry import Computation, Correlation, moved
from .im2col import Pixels, gather_pieces, gather_tap

_share = compiled(share_of)


def weigh(work: Correlation, one: Any, threads: int) -> Computation:
    """What fills the weights of a forward correlation with their gradient; its target is the output's gradient.

    The weights of a filter lie in one piece, and so do the pixels of the target.
    """
    size, sizes = one.itemsize, blocks(one.itemsize)
    filters, columns = work.target.channels, work.vertical.taps * work.horizontal.taps * work.source.channels
    rows, outputs = work.images * work.vertical.outputs, work.horizontal.outputs
    parts = shares(threads, filters, columns, rows * outputs, size)
    packed = parts.down * parts.across * parts.deep * sizes.nbytes
    nbytes, pixels = packed + (parts.deep - 1) * filters * columns * size, Pixels(0, rows, 0, outputs)

    def compute(source: int, weights: int, target: int) -> None:
        here, memory = moved(work, source, weights, target), workspace(nbytes)
        dw = Matrix(here.weights.address, filters, columns, work.weights.filter, size)
        if threads == 1:
            _weigh(one, here, pixels, 0, 0, dw, memory, sizes)
            return
        each = address_of(_weigh, one, here, pixels, 0, 0, dw, memory, sizes)
        _weigh_on_threads(each, parts, one, here, dw, memory, memory + packed, sizes)
        if parts.deep > 1:
            add_layers(parts, one, dw, memory + packed)

    return compute


@compiled
def _weigh_on_threads(each: Any, parts: Any, like: Any, work: Any, dw: Any, memory: Any, sums: Any, sizes: Any) -> None:
    in_team(_weigh_part, parts.down * parts.across * parts.deep, (each, parts, like, work, dw, memory, sums, sizes))


@compiled
def _weigh_part(
    thread: Any, each: Any, parts: Any, like: Any, work: Any, dw: Any, memory: Any, sums: Any, sizes: Any
) -> None:
    tall, wide = _share(dw.rows, parts.down, ROWS), _share(dw.columns, parts.across, sliver_width(like))
    rows, outputs = work.images * work.vertical.outputs, work.horizontal.outputs
    deep, layer = _share(rows, parts.deep, 1), thread // (parts.down * parts.across)
    filter_, column = thread // parts.across % parts.down * tall, thread % parts.across * wide
    if filter_ < dw.rows and column < dw.columns:
        pixels = Pixels(min(layer * deep, rows), min(deep, max(0, rows - layer * deep)), 0, outputs)
        into = part(layer_of(like, dw, sums, layer), filter_, column, tall, wide)
        call_at(_weigh, each, (like, work, pixels, filter_, column, into, memory + thread * sizes.nbytes, sizes))


@compiled
def _weigh(like: Any, work: Any, whole: Any, filter_: Any, column: Any, dw: Any, memory: Any, sizes: Any) -> None:
    """Part of the gradient from some rows of outputs, by one thread; dw begins at that filter and column."""
    at_once, span = max(1, sizes.steps // whole.width), min(whole.width, sizes.steps)
    if whole.rows == 0:
        scale(like - like, dw)
    for right in range(0, dw.columns, sizes.columns):
        columns = min(sizes.columns, dw.columns - right)
        for row in range(whole.row, whole.row + whole.rows, at_once):
            for first in range(0, whole.width, span):
                pixels = Pixels(row, min(at_once, whole.row + whole.rows - row), first, min(span, whole.width - first))
                add = row > whole.row or first > 0
                _gather_slivers(like, memory, work, pixels, column + right, columns)
                for down in range(0, dw.rows, sizes.rows):
                    c = part(dw, down, right, sizes.rows, sizes.columns)
                    _weigh_block(like, work, pixels, filter_ + down, c, add, memory, sizes)


@compiled
def _weigh_block(like: Any, work: Any, pixels: Any, filter_: Any, c: Any, add: Any, memory: Any, sizes: Any) -> None:
    size = bytes_of(like)
    g, steps = work.target, pixels.rows * pixels.width
    address = g.address + (pixels.row * work.horizontal.outputs + pixels.first) * g.pixel + filter_ * size
    panels = memory + sizes.left
    pack_slivers(like, panels, ROWS, Matrix(address, steps, c.rows, g.pixel, size), steps)
    left = Left(panels, steps * size, c.rows, 0, 0, True)
    multiply_block(like, left, memory, steps, c, add, memory + sizes.beside, NOTHING)


@compiled
def _gather_slivers(like: Any, target: Any, work: Any, pixels: Any, first: Any, columns: Any) -> None:
    """What the taps see in slivers: at once where a sliver lies within a tap."""
    size = bytes_of(like)
    width, channels = sliver_width(like), work.source.channels
    for column in range(0, columns, width):
        to, count = target + column * pixels.rows * pixels.width * size, min(width, columns - column)
        tap, channel = divmod(first + column, channels)
        if count == width and channel + width <= channels:
            down, right = divmod(tap, work.horizontal.taps)
            gather_tap(like, to, width * size, work, pixels, down, right, channel, width)
        else:
            gather_pieces(like, to, width, work, pixels, first + column, count)
