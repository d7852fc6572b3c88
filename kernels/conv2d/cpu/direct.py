"""Direct convolution for few channels: tiles of neighbouring pixels slide along source rows in a circular buffer.

Channels must fill whole cache lines, and a row must have enough pixels for a tile. Threads divide the output rows.
"""

from typing import Any, NamedTuple

from ...cpu.blocking import largest_part
from ...cpu.compiled import compiled
from ...cpu.epilogue import NONE, finish
from ...cpu.function_pointer import FunctionPointer, call_pointer, function_pointer
from ...cpu.load_store import bytes_of, read, write
from ...cpu.macrokernel import sliver_width
from ...cpu.microkernel import WORD
from ...cpu.packing import Matrix, pack_slivers
from ...cpu.parallel import parallel_for
from ...cpu.simd import HOST, LINE, VECTORS
from ...cpu.stored_arguments import Stored, reading
from .computation import Computation
from .direct_microkernel import ENTRY, HEIGHTS, multiply_pixels
from .geometry import Correlation, shifted
from .row_buffer import RowBuffer, buffer_nbytes, fill_row, row_buffer, tap_offset

MOST_NBYTES = 2**18  # bytes of the weights and of the row buffer: they must stay in L2
LEAST_OUTPUTS = HEIGHTS[1][-1]  # pixels of the lowest tile
_part_size, _shifted = compiled(largest_part), compiled(shifted)


class Tiles(NamedTuple):
    """Tiles of an output row: `number` tiles of `height` pixels; all but the first `full` have one pixel less."""

    number: int
    height: int
    full: int


class Plan(NamedTuple):
    """Plan of a thread: `Tiles` of whole slivers and of one vector, and workspace offsets; the weights come first."""

    wide_number: int
    wide_height: int
    wide_full: int
    narrow_number: int
    narrow_height: int
    narrow_full: int
    tap_offsets: int
    entries: int
    buffer: int
    nbytes: int


def fits_direct(work: Correlation, size: int) -> bool:
    """Whether `plan_direct` supports a correlation of numbers of `size` bytes."""
    lines = work.source.channels * size % LINE == 0 and work.target.channels * size % HOST.nbytes == 0
    taps, outputs = work.vertical.taps * work.horizontal.taps, work.horizontal.outputs
    if not (lines and taps and outputs >= LEAST_OUTPUTS and work.vertical.dilation > 0):
        return False
    plan = _plan(work, row_buffer(0, work, size), size)
    return plan.nbytes <= MOST_NBYTES


def plan_direct(work: Correlation, one: Any, threads: int) -> Computation:
    """The function that fills the target of a correlation, for numbers of the type of `one`."""
    buffer = row_buffer(0, work, one.itemsize)
    plan = _plan(work, buffer, one.itemsize)
    pointer = function_pointer(_compute_rows, one, work, buffer, plan, 0, 0, 0, NONE)
    return Computation(_compute, one, Stored(work, buffer, plan, pointer), threads, threads * plan.nbytes)


def _plan(work: Correlation, buffer: RowBuffer, size: int) -> Plan:
    width = VECTORS * HOST.nbytes
    filters = -(-work.target.channels * size // width) * width
    taps = work.vertical.taps * work.horizontal.taps
    lines = taps * (work.source.channels * size // LINE)
    tap_offsets = lines * LINE * filters // size
    entries = tap_offsets + lines * WORD
    rows = -(-(entries + lines * ENTRY * WORD) // LINE) * LINE
    outputs = work.horizontal.outputs
    return Plan(
        *_tiles(VECTORS, outputs), *_tiles(1, outputs), tap_offsets, entries, rows, rows + buffer_nbytes(buffer)
    )


def _tiles(vectors: int, outputs: int) -> Tiles:
    """The tiles that compute the fewest pixels twice, and among those the tallest, as low tiles are slower."""

    def of(height: int) -> Tiles:
        number = -(-outputs // height)
        fills = height - 1 in HEIGHTS[vectors] and number * (height - 1) <= outputs
        return Tiles(number, height, outputs - number * (height - 1) if fills else number)

    choices = [of(height) for height in HEIGHTS[vectors] if height <= outputs]
    return min(choices, key=lambda each: (each.number * (each.height - 1) + each.full, each.number))


_read_stored = reading(Correlation, RowBuffer, Plan, FunctionPointer)


@compiled
def _compute(
    like: Any, stored: Any, threads: Any, source: Any, weights: Any, target: Any, memory: Any, epilogue: Any
) -> None:
    work, buffer, plan, pointer = _read_stored(stored)
    here = _shifted(work, source, weights, target)
    if threads == 1:
        rows = work.images * work.vertical.outputs
        call_pointer(_compute_rows, pointer, (like, here, buffer, plan, 0, rows, memory, epilogue))
    else:
        tall = _part_size(work.images * work.vertical.outputs, threads, 1)
        parallel_for(_compute_part, threads, (pointer, tall, like, here, buffer, plan, memory, epilogue))


@compiled
def _compute_part(
    thread: Any, pointer: Any, tall: Any, like: Any, work: Any, buffer: Any, plan: Any, memory: Any, epilogue: Any
) -> None:
    rows = work.images * work.vertical.outputs
    if thread * tall < rows:
        thread_memory, high = memory + thread * plan.nbytes, min(tall, rows - thread * tall)
        call_pointer(_compute_rows, pointer, (like, work, buffer, plan, thread * tall, high, thread_memory, epilogue))


@compiled
def _compute_rows(
    like: Any, work: Any, buffer: Any, plan: Any, first: Any, count: Any, memory: Any, epilogue: Any
) -> None:
    """Some output rows, by one thread."""
    target, outputs = work.target, work.horizontal.outputs
    thread_buffer = RowBuffer(
        memory + plan.buffer, buffer.rows, buffer.row, buffer.line, buffer.phase, buffer.pixels, buffer.first
    )
    _pack(like, work, memory)
    _write_tap_offsets(like, work, thread_buffer, memory + plan.tap_offsets)
    vertical, filled = work.vertical, 0
    for row in range(first, first + count):
        image, output = divmod(row, vertical.outputs)
        begin = output * vertical.stride + vertical.start
        end = begin + (vertical.taps - 1) * vertical.dilation + 1
        filled = max(0, begin) if output == 0 or row == first else max(filled, begin)
        for y in range(filled, min(end, vertical.size)):
            fill_row(like, work, thread_buffer, image, y)
        filled = max(filled, end)
        entries = _write_entries(like, work, thread_buffer, begin, memory + plan.tap_offsets, memory + plan.entries)
        _multiply(like, work, thread_buffer, plan, image, output, entries, memory, _next_row(work, image, filled))
        made = target.address + image * target.image + output * target.row
        finish(epilogue, made, outputs, target.pixel, 0, target.channels)


@compiled
def _next_row(work: Any, image: Any, y: Any) -> Any:
    """Address of the source row that is copied next."""
    if y >= work.vertical.size:
        image, y = image + 1, 0
    return work.source.address + image * work.source.image + y * work.source.row


@compiled
def _pack(like: Any, work: Any, target: Any) -> None:
    """Pack the weights into slivers, tap by tap."""
    size, width, channels = bytes_of(like), sliver_width(like), work.source.channels
    taps = work.vertical.taps * work.horizontal.taps
    for tap in range(taps):
        down, right = divmod(tap, work.horizontal.taps)
        there = work.weights.address + down * work.weights.down + right * work.weights.right
        matrix = Matrix(there, channels, work.target.channels, work.weights.channel, work.weights.filter)
        pack_slivers(like, target + tap * channels * width * size, width, matrix, taps * channels)


@compiled
def _write_tap_offsets(like: Any, work: Any, buffer: Any, tap_offsets: Any) -> None:
    """Write the offset in a buffer row of each line that a tap sees, tap by tap."""
    for right in range(work.horizontal.taps):
        seen = tap_offset(buffer, work.horizontal, right)
        for line in range(_lines(like, work)):
            write(seen + line * buffer.line, tap_offsets)
            tap_offsets += WORD


@compiled
def _lines(like: Any, work: Any) -> Any:
    """Cache lines of a pixel."""
    return work.source.channels * bytes_of(like) // LINE


@compiled
def _write_entries(like: Any, work: Any, buffer: Any, begin: Any, tap_offsets: Any, entries: Any) -> Any:
    """Write an entry for each line of each tap that lies inside the image, for an output row; returns their number."""
    nbytes, each = LINE * sliver_width(like), work.horizontal.taps * _lines(like, work)
    count = 0
    for down in range(work.vertical.taps):
        y = begin + down * work.vertical.dilation
        if 0 <= y < work.vertical.size:
            row = y % buffer.rows * buffer.row
            for place in range(each):
                write(row + read(0, tap_offsets + place * WORD), entries + count * ENTRY * WORD)
                write((down * each + place) * nbytes, entries + (count * ENTRY + 1) * WORD)
                count += 1
    return count


@compiled
def _multiply(
    like: Any, work: Any, buffer: Any, plan: Any, image: Any, output: Any, count: Any, memory: Any, prefetch: Any
) -> None:
    """Compute an output row; the last tile ends at the end of the row. `prefetch`: the row that is copied next."""
    size, width, target = bytes_of(like), sliver_width(like), work.target
    nbytes = work.vertical.taps * work.horizontal.taps * work.source.channels * size
    to = target.address + image * target.image + output * target.row
    prefetch_step = _prefetch_step(like, work, plan, count)
    for column in range(0, target.channels, width):
        narrow = target.channels - column < width
        tiles, begin = _tiles_of(plan, narrow), 0
        for tile in range(tiles.number):
            height = tiles.height - (tile >= tiles.full)
            first = min(begin, work.horizontal.outputs - height)
            begin += height
            seen, there = buffer.address + first * LINE, to + first * target.pixel + column * size
            multiply_pixels(
                like, seen, memory + plan.entries, count, memory + column * nbytes, there, target.pixel, height,
                narrow, prefetch, prefetch_step,
            )
            prefetch += prefetch_step * count


@compiled
def _tiles_of(plan: Any, narrow: Any) -> Tiles:
    if narrow:
        return Tiles(plan.narrow_number, plan.narrow_height, plan.narrow_full)
    return Tiles(plan.wide_number, plan.wide_height, plan.wide_full)


@compiled
def _prefetch_step(like: Any, work: Any, plan: Any, count: Any) -> Any:
    """Bytes to prefetch for each entry of each tile of a row, in whole lines."""
    width = sliver_width(like)
    rows = min(work.vertical.stride, work.vertical.taps)
    tiles = max(1, work.horizontal.outputs // plan.narrow_height * ((work.target.channels + width - 1) // width))
    return (rows * work.source.row // (tiles * max(1, count)) + LINE - 1) // LINE * LINE
