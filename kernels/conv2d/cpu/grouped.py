"""Convolution in groups that divide or fill vectors, depth-wise layers among them: forward pass and input gradient.

Pixels are read where they lie. Blocks of channels of some rows, which stay in the cache, are computed one after the
other. Threads divide the output rows.
"""

from typing import Any

from ...cpu.blocking import largest_part
from ...cpu.compiled import compiled
from ...cpu.function_pointer import call_pointer, function_pointer
from ...cpu.load_store import read
from ...cpu.microkernel import WORD
from ...cpu.parallel import parallel_for
from ...cpu.workspace import workspace
from ...spec import FORWARD
from .. import Shape
from .geometry import ArrayLayout, WeightLayout, weights
from .grouped_microkernel import ENTRY, multiply_pixels, prefetch_read, prefetch_write
from .grouped_plan import TILE, forward_plan, input_gradient_plan, is_whole, rows_of, taps_inside
from .grouped_weights import pack, packed_nbytes
from .whole_group_microkernel import multiply_whole

_part_size = compiled(largest_part)


def plan_grouped(
    direction: str, x: ArrayLayout, w: ArrayLayout, y: ArrayLayout, shape: Shape, one: Any, threads: int
) -> Any:
    """The function that fills y, or x with its gradient, from the addresses of x, w and y."""
    forward = direction == FORWARD
    layer, table = forward_plan(x, y, shape) if forward else input_gradient_plan(y, x, shape)
    own, nbytes = weights(w, 0, 1), packed_nbytes(layer)

    def compute(x: int, w: int, y: int) -> None:
        source, target = (x, y) if forward else (y, x)
        here, memory = WeightLayout(own.address + w, *own[1:]), workspace(threads * nbytes)
        arguments = (layer, table.ctypes.data, here, shape.kernel[1], not forward, source, target)
        if threads == 1:
            _compute_rows(one, *arguments, 0, layer.images * layer.rows, memory)
        else:
            pointer = function_pointer(_compute_rows, one, *arguments, 0, 0, memory)
            _compute_on_threads(pointer, threads, one, *arguments, memory, nbytes)

    return compute


@compiled
def _compute_on_threads(
    pointer: Any, threads: Any, like: Any, layer: Any, table: Any, w: Any, across: Any, backwards: Any, source: Any,
    target: Any, memory: Any, nbytes: Any,
) -> None:
    tall = _part_size(layer.images * layer.rows, threads, 1)
    arguments = (pointer, tall, like, layer, table, w, across, backwards, source, target, memory, nbytes)
    parallel_for(_compute_part, threads, arguments)


@compiled
def _compute_part(
    thread: Any, pointer: Any, tall: Any, like: Any, layer: Any, table: Any, w: Any, across: Any, backwards: Any,
    source: Any, target: Any, memory: Any, nbytes: Any,
) -> None:
    first = thread * tall
    count = min(tall, layer.images * layer.rows - first)
    if count > 0:
        arguments = (like, layer, table, w, across, backwards, source, target, first, count, memory + thread * nbytes)
        call_pointer(_compute_rows, pointer, arguments)


@compiled
def _compute_rows(
    like: Any, layer: Any, table: Any, w: Any, across: Any, backwards: Any, source: Any, target: Any, first: Any,
    count: Any, memory: Any,
) -> None:
    """Some output rows, counted through all images, by one thread."""
    pack(like, layer, w, across, backwards, memory)
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
                    _compute_row(like, layer, table, phase, down, begin, seen, made, packed)
        row += rows


@compiled
def _compute_row(
    like: Any, layer: Any, table: Any, phase: Any, row: Any, begin: Any, source: Any, target: Any, packed: Any
) -> None:
    """Some blocks of channels of an output row of a phase, if the phase has it."""
    rows = rows_of(table, phase)
    if row >= rows.outputs:
        return
    first, taps = taps_inside(rows, row)
    seen = source + (row * rows.stride + rows.start) * rows.source_row
    made = target + rows.target + row * rows.target_row
    end, apart = min(layer.nbytes, begin + layer.together * layer.block), layer.taps * layer.group * layer.block
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
