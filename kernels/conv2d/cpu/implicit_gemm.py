"""Implicit GEMM: convolution as a matrix product whose rows of A are read through an indirection buffer.

Each thread has its own output pixels or filters.
"""

from typing import Any

from ...cpu.blocking import CONFLICTING, BlockSizes, Partition, block_sizes, largest_part, partition, row_pitch
from ...cpu.compiled import compiled
from ...cpu.epilogue import NONE, finish
from ...cpu.function_pointer import FunctionPointer, call_pointer, function_pointer
from ...cpu.load_store import bytes_of, clear, read, write
from ...cpu.macrokernel import sliver_width
from ...cpu.microkernel import WORD
from ...cpu.packing import LINE, Matrix, clear_run, pack_slivers, store_tile
from ...cpu.parallel import parallel_for
from ...cpu.simd import ROWS
from ...cpu.stored_arguments import Stored, reading
from .computation import Computation
from .geometry import Correlation, shifted
from .im2col import PixelBlock
from .indirect_microkernel import multiply_indirect
from .indirection import (
    collect_pixels,
    entries_of,
    fill_entries,
    fill_interior_entries,
    fill_merged_entries,
    indirection_buffer,
    indirection_nbytes,
    targets_of,
)
from .k_blocking import TAPS, first_k_block, next_k_block

_pitch, _part_size, _indirection_buffer = compiled(row_pitch), compiled(largest_part), compiled(indirection_buffer)
_shifted = compiled(shifted)


def plan_implicit_gemm(work: Correlation, one: Any, threads: int) -> Computation:
    """The function that fills the target of a correlation whose numbers have the type of `one`."""
    sizes = block_sizes(one.itemsize)
    pixels = work.images * work.vertical.outputs * work.horizontal.outputs
    steps = work.vertical.taps * work.horizontal.taps * work.source.channels
    parts = partition(threads, pixels, work.target.channels, max(steps, 1), one.itemsize, False)
    nbytes = _workspace_nbytes(sizes, one.itemsize)
    pointer = function_pointer(_multiply_part, one, work, 0, 0, 0, 0, 0, sizes, NONE)
    return Computation(_compute, one, Stored(work, parts, sizes, pointer, nbytes), threads, threads * nbytes)


def _workspace_nbytes(sizes: BlockSizes, size: int) -> int:
    return -(-(sizes.nbytes + indirection_nbytes(sizes.rows, TAPS, sizes.steps, sizes.columns, size)) // LINE) * LINE


_read_stored = reading(Correlation, Partition, BlockSizes, FunctionPointer, int)


@compiled
def _compute(
    like: Any, stored: Any, threads: Any, source: Any, weights: Any, target: Any, memory: Any, epilogue: Any
) -> None:
    work, parts, sizes, pointer, nbytes = _read_stored(stored)
    here = _shifted(work, source, weights, target)
    if threads == 1:
        rows, filters = work.images * work.vertical.outputs, work.target.channels
        call_pointer(_multiply_part, pointer, (like, here, 0, rows, 0, filters, memory, sizes, epilogue))
    else:
        arguments = (pointer, parts, like, here, memory, nbytes, sizes, epilogue)
        parallel_for(_thread_part, parts.rows * parts.columns, arguments)


@compiled
def _thread_part(
    thread: Any, pointer: Any, parts: Any, like: Any, work: Any, memory: Any, nbytes: Any, sizes: Any, epilogue: Any
) -> None:
    rows, filters = work.images * work.vertical.outputs, work.target.channels
    tall, wide = _part_size(rows, parts.rows, 1), _part_size(filters, parts.columns, sliver_width(like))
    row, first = thread // parts.columns * tall, thread % parts.columns * wide
    if row < rows and first < filters:
        part_rows, part_filters = min(tall, rows - row), min(wide, filters - first)
        thread_memory = memory + thread * nbytes
        call_pointer(
            _multiply_part, pointer, (like, work, row, part_rows, first, part_filters, thread_memory, sizes, epilogue)
        )


@compiled
def _multiply_part(
    like: Any, work: Any, row: Any, rows: Any, first: Any, filters: Any, memory: Any, sizes: Any, epilogue: Any
) -> None:
    """Some output rows and filters, by one thread; as many filters at a time as their packed weights fit for."""
    steps = work.vertical.taps * work.horizontal.taps * work.source.channels
    if steps == 0:
        _clear(like, work, row, rows, first, filters)
        _finish_rows(like, work, row, rows, 0, work.horizontal.outputs, first, filters, epilogue)
    width, room = sliver_width(like), sizes.steps * sizes.columns
    at_once = max(width, room // max(steps, 1) // width * width)
    for filter_ in range(first, first + filters, at_once):
        columns = min(at_once, first + filters - filter_)
        k_block = first_k_block(work, sizes.steps)
        while k_block.taps:
            k_block = _multiply_k_blocks(like, work, k_block, row, rows, filter_, columns, memory, sizes, epilogue)


@compiled
def _multiply_k_blocks(
    like: Any, work: Any, begin: Any, row: Any, rows: Any, filter_: Any, filters: Any, memory: Any, sizes: Any,
    epilogue: Any,
) -> Any:
    """As many K-blocks as packed weights fit for, for all rows, by blocks of pixels; returns the next K-block."""
    outputs, size = work.horizontal.outputs, bytes_of(like)
    end = _pack_k_blocks(like, memory, work, begin, filter_, filters, sizes)
    pitch = _pitch(min(sizes.steps, TAPS * work.source.channels * work.merged), size)
    indirection = _indirection_buffer(
        memory + sizes.nbytes, memory + sizes.packed_a, pitch, sizes.rows, TAPS, sizes.steps, size
    )
    clear_run(like, indirection.zeros, sizes.steps)
    at_once, span = max(1, sizes.rows // outputs), min(outputs, sizes.rows)
    for here in range(row, row + rows, at_once):
        for first in range(0, outputs, span):
            pixels = PixelBlock(here, min(at_once, row + rows - here), first, min(span, outputs - first))
            tiles = collect_pixels(work, pixels, indirection, filter_ * size)
            k_block, slivers = begin, memory
            while not _same(k_block, end):
                _multiply_tiles(like, work, k_block, indirection, tiles, filters, slivers)
                slivers += _packed_size(like, k_block, filters) * size
                k_block = next_k_block(work, k_block, sizes.steps)
            if end.taps == 0:
                _finish_rows(like, work, here, pixels.rows, first, pixels.width, filter_, filters, epilogue)
    return end


@compiled
def _finish_rows(
    like: Any, work: Any, row: Any, rows: Any, first: Any, outputs: Any, filter_: Any, filters: Any, epilogue: Any
) -> None:
    """The epilogue of completed outputs of some rows and filters."""
    target = work.target
    for here in range(row, row + rows):
        image, output = divmod(here, work.vertical.outputs)
        to = target.address + image * target.image + output * target.row + first * target.pixel
        finish(epilogue, to + filter_ * bytes_of(like), outputs, target.pixel, filter_, filters)


@compiled
def _same(one: Any, other: Any) -> Any:
    return one.taps == 0 or (one.tap == other.tap and one.channel == other.channel)


@compiled
def _packed_size(like: Any, k_block: Any, filters: Any) -> Any:
    """Numbers of the packed weights of a K-block, in whole slivers."""
    width = sliver_width(like)
    return k_block.taps * k_block.channels * ((filters + width - 1) // width * width)


@compiled
def _pack_k_blocks(like: Any, target: Any, work: Any, k_block: Any, filter_: Any, filters: Any, sizes: Any) -> Any:
    """Pack the weights of consecutive K-blocks while they fit; returns the next K-block."""
    used = 0
    while k_block.taps and used + _packed_size(like, k_block, filters) <= sizes.steps * sizes.columns:
        _pack_weights(like, target + used * bytes_of(like), work, k_block, filter_, filters)
        used += _packed_size(like, k_block, filters)
        k_block = next_k_block(work, k_block, sizes.steps)
    return k_block


@compiled
def _multiply_tiles(
    like: Any, work: Any, k_block: Any, indirection: Any, tiles: Any, filters: Any, slivers: Any
) -> None:
    """Multiply all tiles of a block of pixels with all slivers of a K-block."""
    size, width = bytes_of(like), sliver_width(like)
    lanes, together = LINE // size, k_block.taps if work.merged > 1 else 1
    _fill_tiles(like, work, k_block, indirection, tiles, width)
    add = k_block.tap > 0 or k_block.channel > 0
    for column in range(0, filters, width):
        sliver, columns = slivers + column * k_block.taps * k_block.channels * size, min(width, filters - column)
        for tile in range(tiles[0]):
            count, entries = read(0, indirection.counts + tile * WORD), entries_of(indirection, tile)
            targets, steps = targets_of(indirection, tile), k_block.channels
            if tile < tiles[1]:
                steps *= together
            if add and count == 0:
                continue
            narrow = columns <= lanes
            if columns in (lanes, width):
                multiply_indirect(like, steps, size, entries, count, sliver, targets, column * size, add, narrow)
            else:
                multiply_indirect(
                    like, steps, size, entries, count, sliver, indirection.scratch_targets, 0, False, narrow
                )
                _merge_rows(like, targets, column * size, columns, indirection.scratch, add)


@compiled
def _fill_tiles(like: Any, work: Any, k_block: Any, indirection: Any, tiles: Any, width: Any) -> None:
    """Fill the indirection entries of all tiles, and their numbers."""
    copies = work.horizontal.stride * work.source.pixel % CONFLICTING == 0
    for tile in range(tiles[0]):
        interior = tile >= tiles[1]
        if work.merged > 1 and not interior:
            count = fill_merged_entries(like, work, k_block, indirection, tile)
        elif interior and (work.merged > 1 or not copies):
            count = fill_interior_entries(like, work, k_block, indirection, tile, width)
        else:
            count = fill_entries(like, work, k_block, indirection, tile, copies, width)
        write(count, indirection.counts + tile * WORD)


@compiled
def _merge_rows(like: Any, targets: Any, right: Any, columns: Any, source: Any, add: Any) -> None:
    """Copy a scratch tile to its target rows."""
    size = bytes_of(like)
    for row in range(ROWS):
        there = Matrix(read(0, targets + row * WORD) + right, 1, columns, 0, size)
        store_tile(like, source + row * sliver_width(like) * size, sliver_width(like), there, add)


@compiled
def _clear(like: Any, work: Any, row: Any, rows: Any, first: Any, filters: Any) -> None:
    """Store zeros: no tap reaches these outputs."""
    size = bytes_of(like)
    target, whole = work.target, filters // (LINE // size) * (LINE // size)
    for here in range(row, row + rows):
        image, output = divmod(here, work.vertical.outputs)
        for place in range(work.horizontal.outputs):
            to = target.address + image * target.image + output * target.row + place * target.pixel + first * size
            clear_run(like, to, whole)
            for filter_ in range(whole, filters):
                clear(like, to + filter_ * size)


@compiled
def _pack_weights(like: Any, target: Any, work: Any, k_block: Any, filter_: Any, filters: Any) -> None:
    """Pack the filters into slivers, tap by tap."""
    size = bytes_of(like)
    width, steps, per_row = sliver_width(like), k_block.taps * k_block.channels, work.horizontal.taps // work.merged
    for tap in range(k_block.taps):
        down, right = divmod(k_block.tap + tap, per_row)
        there = work.weights.address + down * work.weights.down + right * work.weights.right
        there += k_block.channel * work.weights.channel + filter_ * work.weights.filter
        matrix = Matrix(there, k_block.channels, filters, work.weights.channel, work.weights.filter)
        pack_slivers(like, target + tap * k_block.channels * width * size, width, matrix, steps)
