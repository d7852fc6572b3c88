"""Weight gradient for few channels: the rows of a tile are the contiguous taps of a kernel row.

The product is the transpose of that in weight_gradient.py: im2col of the source times the output gradient. Some rows of
each image are copied with zero padding, so that every tap finds a number. Threads divide pixels.
"""

from typing import Any, NamedTuple

from ...cpu.blocking import LINE, caches, largest_part
from ...cpu.compiled import compiled
from ...cpu.function_pointer import FunctionPointer, call_pointer, function_pointer
from ...cpu.load_store import bytes_of, read, write
from ...cpu.macrokernel import Prefetch, next_prefetch, sliver_width
from ...cpu.microkernel import WORD
from ...cpu.packing import Matrix, clear_run, copy_run, pack_slivers
from ...cpu.parallel import parallel_for
from ...cpu.simd import ROWS, VECTORS, lanes
from ...cpu.stored_arguments import Stored, reading
from .computation import Computation
from .geometry import Correlation, shifted
from .indirect_microkernel import SHORT, STRIP, TALL, multiply_strip

_part_size, _shifted = compiled(largest_part), compiled(shifted)


class Workspace(NamedTuple):
    """Workspace of a thread: output rows at a time, and byte offsets; the sums come first."""

    rows: int
    columns: int  # numbers of a padded image row
    tile_rows: int  # rows of a tile
    tap_rows: int  # rows of the sums of a row of taps, in whole tiles
    images: int
    slivers: int
    entries: int
    nbytes: int


def plan_weight_gradient_few_channels(work: Correlation, one: Any, threads: int) -> Computation:
    """The same as `plan_weight_gradient`, for a correlation with merged taps."""
    layout = _workspace(work, one.itemsize)

    pointer = function_pointer(_add_gradient, one, work, 0, 0, 0, layout)
    return Computation(_compute, one, Stored(work, layout, pointer), threads, threads * layout.nbytes)


def _workspace(work: Correlation, size: int) -> Workspace:
    width, (taps, row_numbers) = VECTORS * lanes(size), _rows_of_weights(work)
    outputs, vertical = work.horizontal.outputs, work.vertical
    prefetch_at = caches()[1] * 2 // 3 // ((work.source.channels + work.target.channels) * size)
    rows = min(vertical.outputs, max(1, prefetch_at // outputs))
    columns = ((outputs - 1) * work.horizontal.stride + work.horizontal.taps) * work.source.channels
    seen = (rows - 1) * vertical.stride + (taps - 1) * vertical.dilation + 1
    filters = -(-work.target.channels // width) * width
    tile_rows = _height(row_numbers, work.target.channels <= lanes(size))
    tap_rows = -(-row_numbers // tile_rows) * tile_rows
    beyond = tile_rows * size  # bytes that a tile reads beyond the last row of taps
    parts = [taps * tap_rows * filters * size, seen * columns * size + beyond, rows * outputs * filters * size + LINE]
    parts += [rows * STRIP * WORD]
    ends = [sum(-(-part // LINE) * LINE for part in parts[: index + 1]) for index in range(len(parts))]
    return Workspace(rows, columns, tile_rows, tap_rows, *ends)


def _height(row_numbers: int, narrow: bool) -> int:
    return ROWS if not narrow else TALL if row_numbers > SHORT else SHORT


def _rows_of_weights(work: Correlation) -> tuple[int, int]:
    """Rows of taps, and numbers in each."""
    return work.vertical.taps, work.horizontal.taps * work.source.channels


_read_stored = reading(Correlation, Workspace, FunctionPointer)


@compiled
def _compute(
    like: Any, stored: Any, threads: Any, source: Any, weights: Any, target: Any, memory: Any, _epilogue: Any
) -> None:
    work, layout, pointer = _read_stored(stored)
    here = _shifted(work, source, weights, target)
    if threads == 1:
        rows = work.images * work.vertical.outputs
        call_pointer(_add_gradient, pointer, (like, here, 0, rows, memory, layout))
    else:
        tap_rows = _part_size(work.images * work.vertical.outputs, threads, 1)
        parallel_for(_add_gradient_part, threads, (pointer, tap_rows, like, here, memory, layout))
    _store_weights(like, here, memory, layout.nbytes, threads, layout.tap_rows)


@compiled
def _add_gradient_part(
    thread: Any, pointer: Any, tap_rows: Any, like: Any, work: Any, memory: Any, layout: Any
) -> None:
    call_pointer(
        _add_gradient, pointer, (like, work, thread * tap_rows, tap_rows, memory + thread * layout.nbytes, layout)
    )


@compiled
def _add_gradient(like: Any, work: Any, first: Any, count: Any, memory: Any, layout: Any) -> None:
    """The sums of some output rows, by one thread."""
    end = min(first + count, work.images * work.vertical.outputs)
    clear_run(like, memory, layout.images // bytes_of(like))
    row = first
    while row < end:
        image, output = divmod(row, work.vertical.outputs)
        rows = min(layout.rows, end - row, work.vertical.outputs - output)
        _copy_image(like, work, image, output, rows, memory + layout.images, layout)
        if not _needs_no_packing(like, work):
            _pack_gradient(like, work, image, output, rows, memory + layout.slivers)
        _write_entries(like, work, image, output, rows, memory, layout)
        row += rows
        _multiply(like, work, output, rows, memory, layout, _prefetch_after(work, image, output + rows, rows))


@compiled
def _copy_image(like: Any, work: Any, image: Any, output: Any, rows: Any, target: Any, layout: Any) -> None:
    """Copy what the taps of some output rows see, with zero padding."""
    size, channels, vertical = bytes_of(like), work.source.channels, work.vertical
    before = min(-min(work.horizontal.start, 0), layout.columns // channels)
    from_ = max(work.horizontal.start, 0)
    inside = max(0, min(work.horizontal.size - from_, layout.columns // channels - before))
    for row in range((rows - 1) * vertical.stride + (vertical.taps - 1) * vertical.dilation + 1):
        to, place = target + row * layout.columns * size, output * vertical.stride + vertical.start + row
        clear_run(like, to, layout.columns)
        if 0 <= place < vertical.size:
            seen = work.source.address + image * work.source.image + place * work.source.row
            copy_run(like, to + before * channels * size, seen + from_ * work.source.pixel, inside * channels)


@compiled
def _pack_gradient(like: Any, work: Any, image: Any, output: Any, rows: Any, target: Any) -> None:
    """Pack the output gradient into slivers, output row by output row."""
    size, outputs, width = bytes_of(like), work.horizontal.outputs, sliver_width(like)
    for row in range(rows):
        seen = work.target.address + image * work.target.image + (output + row) * work.target.row
        matrix = Matrix(seen, outputs, work.target.channels, work.target.pixel, size)
        pack_slivers(like, target + row * outputs * width * size, width, matrix, rows * outputs)


@compiled
def _needs_no_packing(like: Any, work: Any) -> Any:
    """Whether pixels of the output gradient are rows of slivers as they lie in memory."""
    nbytes = work.target.channels * bytes_of(like)
    return nbytes == LINE or nbytes % (sliver_width(like) * bytes_of(like)) == 0


@compiled
def _prefetch_after(work: Any, image: Any, output: Any, rows: Any) -> Any:
    """Memory to prefetch after these rows: the next rows of this image or of the next one."""
    if output >= work.vertical.outputs:
        image, output = image + 1, 0
    seen = work.source.address + image * work.source.image
    seen += max(0, output * work.vertical.stride + work.vertical.start) * work.source.row
    gradient = work.target.address + image * work.target.image + output * work.target.row
    return Prefetch(seen, rows * work.vertical.stride * work.source.row, gradient, rows * work.target.row)


@compiled
def _write_entries(like: Any, work: Any, image: Any, output: Any, rows: Any, memory: Any, layout: Any) -> None:
    """Write for each output row the addresses of the first source pixel and of the gradient."""
    size = bytes_of(like)
    gradient, down = memory + layout.slivers, work.horizontal.outputs * sliver_width(like) * size
    if _needs_no_packing(like, work):
        gradient = work.target.address + image * work.target.image + output * work.target.row
        down = work.target.row
    for row in range(rows):
        entry = memory + layout.entries + row * STRIP * WORD
        write(memory + layout.images + row * work.vertical.stride * layout.columns * size, entry)
        write(gradient + row * down, entry + WORD)


@compiled
def _multiply(like: Any, work: Any, output: Any, rows: Any, memory: Any, layout: Any, prefetch: Any) -> None:
    """Add the products of some output rows to the sums, tile by tile; no tile spans two rows of taps."""
    size, width, outputs = bytes_of(like), sliver_width(like), work.horizontal.outputs
    row_numbers, filters = (
        work.horizontal.taps * work.source.channels,
        (work.target.channels + width - 1) // width * width,
    )
    apart, pitch = work.horizontal.stride * work.source.pixel, width * size
    to_sliver = rows * outputs * size
    if _needs_no_packing(like, work):
        pitch, to_sliver = work.target.pixel, size
    prefetched, entries = 0, memory + layout.entries
    for tap in range(work.vertical.taps):
        tile, (skipped, seen) = memory + tap * layout.tap_rows * filters * size, _valid_rows(work, output, rows, tap)
        for _ in range(0, row_numbers, layout.tile_rows):
            for column in range(0, filters, width):
                prefetch_at = next_prefetch(prefetch, prefetched)
                prefetched += rows * outputs * LINE
                multiply_strip(
                    like, outputs, apart, entries + skipped * STRIP * WORD, seen, pitch,
                    tile + column * size, filters * size, layout.tile_rows, prefetch_at,
                )
                _advance(entries, rows, 0, width * to_sliver)
            _advance(entries, rows, layout.tile_rows * size, -filters * to_sliver)
            tile += layout.tile_rows * filters * size
        back = (row_numbers + layout.tile_rows - 1) // layout.tile_rows * layout.tile_rows * size
        _advance(entries, rows, work.vertical.dilation * layout.columns * size - back, 0)


@compiled
def _valid_rows(work: Any, output: Any, rows: Any, tap: Any) -> Any:
    """Output rows above the part of the image that a tap sees, and output rows that see it."""
    vertical = work.vertical
    first, step = output * vertical.stride + vertical.start + tap * vertical.dilation, vertical.stride
    begin, end = max(0, -(first // step)), max(0, (vertical.size - first + step - 1) // step)
    return min(begin, rows), max(0, min(end, rows) - min(begin, rows))


@compiled
def _advance(entries: Any, rows: Any, seen: Any, gradient: Any) -> None:
    """Advance all entries by so many bytes."""
    for entry in range(entries, entries + rows * STRIP * WORD, STRIP * WORD):
        write(read(0, entry) + seen, entry)
        write(read(0, entry + WORD) + gradient, entry + WORD)


@compiled
def _store_weights(like: Any, work: Any, memory: Any, apart: Any, threads: Any, tap_rows: Any) -> None:
    """Add the sums of all threads and store them, transposed, in the weights."""
    parallel_for(_store_filters, threads, (like, work, memory, apart, threads, tap_rows))


@compiled
def _store_filters(first: Any, like: Any, work: Any, memory: Any, apart: Any, threads: Any, tap_rows: Any) -> None:
    """Store every `threads`-th filter from the first on."""
    size, width = bytes_of(like), sliver_width(like)
    row_numbers, filters = (
        work.horizontal.taps * work.source.channels,
        (work.target.channels + width - 1) // width * width,
    )
    for filter_ in range(first, work.target.channels, threads):
        for row in range(work.vertical.taps * row_numbers):
            tap, number = divmod(row, row_numbers)
            total = like - like
            for thread in range(threads):
                total += read(like, memory + thread * apart + ((tap * tap_rows + number) * filters + filter_) * size)
            write(total, work.weights.address + filter_ * work.weights.filter + row * size)
