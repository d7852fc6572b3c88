"""Convolution in groups that divide or fill vectors, depth-wise layers among them: forward pass and input gradient.

Pixels are read where they lie. Blocks of channels of some rows, which stay in the cache, are computed one after the
other. Threads divide the output rows.
"""

from typing import Any, NamedTuple

from ...cpu.blocking import largest_part
from ...cpu.compiled import compiled
from ...cpu.function_pointer import FunctionPointer, call_pointer, function_pointer
from ...cpu.load_store import bytes_of, read
from ...cpu.microkernel import WORD
from ...cpu.packing import clear_run
from ...cpu.parallel import parallel_for
from ...cpu.simd import LINE
from ...cpu.stored_arguments import Stored, reading, words
from ...spec import FORWARD
from .. import Shape
from .computation import Computation
from .depthwise_microkernel import multiply_row
from .geometry import ArrayLayout, WeightLayout, weights
from .grouped_microkernel import ENTRY, multiply_pixels, prefetch_read, prefetch_write
from .grouped_plan import TILE, Layer, forward_plan, input_gradient_plan, is_whole, rows_of, taps_inside
from .grouped_weights import pack, packed_nbytes
from .whole_group_microkernel import multiply_whole

_part_size = compiled(largest_part)


class Packing(NamedTuple):
    """Taps of a row, whether weights are those of the input gradient; bytes of packed weights and a line of zeros."""

    across: int
    backwards: int
    nbytes: int


PARTS = Layer, WeightLayout, Packing, FunctionPointer  # of a stored plan, which the table follows
_read_stored, TABLE = reading(*PARTS), words(*PARTS) * WORD


def plan_grouped(
    direction: str, x: ArrayLayout, w: ArrayLayout, y: ArrayLayout, shape: Shape, one: Any, threads: int
) -> Computation:
    """What fills y, or x with its gradient, for arrays without addresses."""
    forward = direction == FORWARD
    layer, table = forward_plan(x, y, shape) if forward else input_gradient_plan(y, x, shape)
    own, packing = weights(w, 0, 1), Packing(shape.kernel[1], int(not forward), packed_nbytes(layer) + LINE)
    pointer = function_pointer(_compute_rows, one, layer, 0, own, packing, 0, 0, 0, 0, 0)
    stored = Stored(layer, own, packing, pointer, tuple(table.tolist()))
    return Computation(_compute, one, stored, threads, threads * packing.nbytes)


@compiled
def _compute(
    like: Any, stored: Any, threads: Any, source: Any, weights: Any, target: Any, memory: Any, epilogue: Any
) -> None:
    layer, own, packing, pointer = _read_stored(stored)
    w, table = WeightLayout(own.address + weights, own.down, own.right, own.channel, own.filter), stored + TABLE
    if threads == 1:
        rows = layer.images * layer.rows
        call_pointer(_compute_rows, pointer, (like, layer, table, w, packing, source, target, 0, rows, memory))
    else:
        tall = _part_size(layer.images * layer.rows, threads, 1)
        parallel_for(_compute_part, threads, (pointer, tall, like, layer, table, w, packing, source, target, memory))


@compiled
def _compute_part(
    thread: Any, pointer: Any, tall: Any, like: Any, layer: Any, table: Any, w: Any, packing: Any, source: Any,
    target: Any, memory: Any,
) -> None:
    first = thread * tall
    count = min(tall, layer.images * layer.rows - first)
    if count > 0:
        own = memory + thread * packing.nbytes
        call_pointer(_compute_rows, pointer, (like, layer, table, w, packing, source, target, first, count, own))


@compiled
def _compute_rows(
    like: Any, layer: Any, table: Any, w: Any, packing: Any, source: Any, target: Any, first: Any, count: Any,
    memory: Any,
) -> None:
    """Some output rows, counted through all images, by one thread."""
    pack(like, layer, w, packing.across, packing.backwards, memory)
    zeros = memory + packing.nbytes - LINE
    clear_run(like, zeros, LINE // bytes_of(like))
    apart = layer.taps * layer.group * layer.block
    row, end = first, first + count
    while row < end:
        image, output = divmod(row, layer.rows)
        rows = min(layer.strip, end - row, layer.rows - output)
        seen, made = source + image * layer.source_image, target + image * layer.target_image
        for begin in range(0, layer.nbytes, layer.together * layer.block):
            packed = memory + begin // layer.block * apart
            for down in range(output, output + rows):
                for phase in range(layer.phases):
                    _compute_row(like, layer, table, phase, down, begin, seen, made, packed, zeros)
        row += rows


@compiled
def _compute_row(
    like: Any, layer: Any, table: Any, phase: Any, row: Any, begin: Any, source: Any, target: Any, packed: Any,
    zeros: Any,
) -> None:
    """Some blocks of channels of an output row of a phase, if the phase has it."""
    rows = rows_of(table, phase)
    if row >= rows.outputs:
        return
    first, taps = taps_inside(rows, row)
    seen = source + (row * rows.stride + rows.start) * rows.source_row
    made = target + rows.target + row * rows.target_row
    end, apart = min(layer.nbytes, begin + layer.together * layer.block), layer.taps * layer.group * layer.block
    if layer.by_rows:
        seen += first * rows.dilation * rows.source_row
        w = packed + (rows.tap + first * rows.tap_down) * layer.block
        _compute_by_rows(like, layer, rows, table, phase, begin, seen, made, taps, w, zeros)
        return
    for tile in range(table + rows.tiles, table + rows.tiles + rows.number * TILE * WORD, TILE * WORD):
        x, y, height = seen + read(0, tile), made + read(0, tile + WORD), read(0, tile + 2 * WORD)
        entries, across, w = table + read(0, tile + 3 * WORD), read(0, tile + 4 * WORD), packed
        entries += first * across * ENTRY * WORD
        for block in range(begin, end, layer.block):
            at = min(block, layer.nbytes - layer.block)
            _prefetch(rows, x + at, y + at, height, phase == 0)
            _multiply(like, layer, height, x + at, rows.apart, entries, taps * across, w, y + at, rows.target_pixel)
            w += apart


@compiled
def _compute_by_rows(
    like: Any, layer: Any, rows: Any, table: Any, phase: Any, begin: Any, seen: Any, made: Any, taps: Any, packed: Any,
    zeros: Any,
) -> None:
    """The same for tiles that are computed row by row of taps; seen and packed are those of the first row inside."""
    end, apart = min(layer.nbytes, begin + layer.together * layer.block), layer.taps * layer.block
    steps = (rows.dilation * rows.source_row, rows.apart // rows.right_stride)
    of_taps = (rows.tap_down * layer.block, rows.tap_right * layer.block)
    for tile in range(table + rows.tiles, table + rows.tiles + rows.number * TILE * WORD, TILE * WORD):
        x, y, height = seen + read(0, tile), made + read(0, tile + WORD), read(0, tile + 2 * WORD)
        inside, w = (read(0, tile + 3 * WORD), read(0, tile + 4 * WORD)), packed
        for block in range(begin, end, layer.block):
            at = min(block, layer.nbytes - layer.block)
            _prefetch(rows, x + at, y + at, height, phase == 0)
            case = rows.kind + height
            multiply_row(like, case, x + at, steps, inside, zeros, taps, w, of_taps, y + at, rows.target_pixel)
            w += apart


@compiled
def _multiply(
    like: Any, layer: Any, height: Any, x: Any, apart: Any, entries: Any, count: Any, w: Any, y: Any, pixel: Any
) -> None:
    if is_whole(like, layer):
        multiply_whole(like, layer.vectors, height, x, apart, entries, count, w, y, pixel)
    else:
        multiply_pixels(like, layer.group, layer.vectors, height, x, apart, entries, count, w, y, pixel)


@compiled
def _prefetch(rows: Any, x: Any, y: Any, height: Any, source: Any) -> None:
    """Prefetch what the same tile of the next row of outputs sees and writes."""
    ahead = x + (rows.stride + (rows.taps - 1) * rows.dilation) * rows.source_row
    pixel = rows.apart // rows.right_stride
    down = y + rows.target_row
    if source:
        for row in range(rows.stride):
            for place in range(height * rows.right_stride):
                prefetch_read(ahead - row * rows.source_row + place * pixel)
    for place in range(height):
        prefetch_write(down + place * rows.target_pixel)
