"""A correlation in Numba: products of what the taps see, gathered block by block, with the weights.

Each thread has output pixels or filters of its own.
"""

from typing import Any

from ...cpu.blocking import CROWDED, Blocks, blocks, row_pitch, share_of, shares
from ...cpu.compiled import compiled
from ...cpu.epilogue import Epilogue, finish, no_epilogue
from ...cpu.function_pointer import address_of, call_at
from ...cpu.load_store import bytes_of, clear, read, write
from ...cpu.macrokernel import sliver_width
from ...cpu.microkernel import WORD
from ...cpu.packing import LINE, Matrix, clear_run, merge, pack_slivers
from ...cpu.parallel import in_team
from ...cpu.simd import ROWS
from ...cpu.workspace import workspace
from .geometry import Computation, Correlation, moved
from .im2col import Pixels
from .indirect_microkernel import multiply_places
from .indirection import arrange, entries_of, fill, fill_inside, fill_joined, tables, tables_nbytes, targets_of
from .reduction_blocking import TAPS, first_chunk, next_chunk

_pitch, _share, _tables = compiled(row_pitch), compiled(share_of), compiled(tables)


def correlate(work: Correlation, one: Any, threads: int) -> Computation:
    """What fills the target of a correlation, whose numbers are like `one`."""
    sizes = blocks(one.itemsize)
    pixels = work.images * work.vertical.outputs * work.horizontal.outputs
    steps = work.vertical.taps * work.horizontal.taps * work.source.channels
    parts = shares(threads, pixels, work.target.channels, max(steps, 1), one.itemsize, False)
    nbytes = _room(sizes, one.itemsize)
    nothing = no_epilogue(one)

    def compute(source: int, weights: int, target: int, then: Epilogue | None = nothing) -> None:
        here, memory = moved(work, source, weights, target), workspace(threads * nbytes)
        if threads == 1:
            _correlate(one, here, 0, work.images * work.vertical.outputs, 0, work.target.channels, memory, sizes, then)
        else:
            each = address_of(_correlate, one, here, 0, 0, 0, 0, memory, sizes, then)
            _correlate_on_threads(each, parts, one, here, memory, nbytes, sizes, then)

    return compute


def _room(sizes: Blocks, size: int) -> int:
    return -(-(sizes.nbytes + tables_nbytes(sizes.rows, TAPS, sizes.steps, sizes.columns, size)) // LINE) * LINE


@compiled
def _correlate_on_threads(
    each: Any, parts: Any, like: Any, work: Any, memory: Any, nbytes: Any, sizes: Any, then: Any
) -> None:
    in_team(_correlate_part, parts.down * parts.across, (each, parts, like, work, memory, nbytes, sizes, then))


@compiled
def _correlate_part(
    thread: Any, each: Any, parts: Any, like: Any, work: Any, memory: Any, nbytes: Any, sizes: Any, then: Any
) -> None:
    rows, filters = work.images * work.vertical.outputs, work.target.channels
    tall, wide = _share(rows, parts.down, 1), _share(filters, parts.across, sliver_width(like))
    row, first = thread // parts.across * tall, thread % parts.across * wide
    if row < rows and first < filters:
        own, high, broad = memory + thread * nbytes, min(tall, rows - row), min(wide, filters - first)
        call_at(_correlate, each, (like, work, row, high, first, broad, own, sizes, then))


@compiled
def _correlate(
    like: Any, work: Any, row: Any, rows: Any, first: Any, filters: Any, memory: Any, sizes: Any, then: Any
) -> None:
    """Some rows of outputs, and some filters, by one thread: as many filters at a time as all their weights fit for."""
    steps = work.vertical.taps * work.horizontal.taps * work.source.channels
    if steps == 0:
        _clear(like, work, row, rows, first, filters)
        _finish_rows(like, work, row, rows, 0, work.horizontal.outputs, first, filters, then)
    width, room = sliver_width(like), sizes.steps * sizes.columns
    at_once = max(width, room // max(steps, 1) // width * width)
    for filter_ in range(first, first + filters, at_once):
        columns = min(at_once, first + filters - filter_)
        chunk = first_chunk(work, sizes.steps)
        while chunk.taps:
            chunk = _correlate_chunks(like, work, chunk, row, rows, filter_, columns, memory, sizes, then)


@compiled
def _correlate_chunks(
    like: Any, work: Any, begin: Any, row: Any, rows: Any, filter_: Any, filters: Any, memory: Any, sizes: Any,
    then: Any,
) -> Any:
    """As many chunks as weights fit for, for all these rows, block by block of pixels; the chunk after them."""
    outputs, size = work.horizontal.outputs, bytes_of(like)
    end = _pack_chunks(like, memory, work, begin, filter_, filters, sizes)
    pitch = _pitch(min(sizes.steps, TAPS * work.source.channels * work.joined), size)
    places = _tables(memory + sizes.nbytes, memory + sizes.left, pitch, sizes.rows, TAPS, sizes.steps, size)
    clear_run(like, places.zeros, sizes.steps)
    at_once, span = max(1, sizes.rows // outputs), min(outputs, sizes.rows)
    for here in range(row, row + rows, at_once):
        for first in range(0, outputs, span):
            pixels = Pixels(here, min(at_once, row + rows - here), first, min(span, outputs - first))
            tiles = arrange(work, pixels, places, filter_ * size)
            chunk, slivers = begin, memory
            while not _same(chunk, end):
                _multiply_tiles(like, work, chunk, places, tiles, filters, slivers)
                slivers += _room_of(like, chunk, filters) * size
                chunk = next_chunk(work, chunk, sizes.steps)
            if end.taps == 0:
                _finish_rows(like, work, here, pixels.rows, first, pixels.width, filter_, filters, then)
    return end


@compiled
def _finish_rows(
    like: Any, work: Any, row: Any, rows: Any, first: Any, outputs: Any, filter_: Any, filters: Any, then: Any
) -> None:
    """The epilogue of outputs that are whole, of some rows and some filters."""
    target = work.target
    for here in range(row, row + rows):
        image, output = divmod(here, work.vertical.outputs)
        to = target.address + image * target.image + output * target.row + first * target.pixel
        finish(like, then, to + filter_ * bytes_of(like), outputs, target.pixel, filter_, filters)


@compiled
def _same(one: Any, other: Any) -> Any:
    return one.taps == 0 or (one.tap == other.tap and one.channel == other.channel)


@compiled
def _room_of(like: Any, chunk: Any, filters: Any) -> Any:
    """Numbers of a chunk's weights, in whole slivers."""
    width = sliver_width(like)
    return chunk.taps * chunk.channels * ((filters + width - 1) // width * width)


@compiled
def _pack_chunks(like: Any, target: Any, work: Any, chunk: Any, filter_: Any, filters: Any, sizes: Any) -> Any:
    """Slivers of the weights of one chunk after the other, as long as there is room; the chunk after them."""
    used = 0
    while chunk.taps and used + _room_of(like, chunk, filters) <= sizes.steps * sizes.columns:
        _pack_weights(like, target + used * bytes_of(like), work, chunk, filter_, filters)
        used += _room_of(like, chunk, filters)
        chunk = next_chunk(work, chunk, sizes.steps)
    return chunk


@compiled
def _multiply_tiles(like: Any, work: Any, chunk: Any, places: Any, tiles: Any, filters: Any, slivers: Any) -> None:
    """All tiles of a block with all slivers of a chunk."""
    size, width = bytes_of(like), sliver_width(like)
    lanes, together = LINE // size, chunk.taps if work.joined > 1 else 1
    _fill_tiles(like, work, chunk, places, tiles, width)
    add = chunk.tap > 0 or chunk.channel > 0
    for column in range(0, filters, width):
        sliver, columns = slivers + column * chunk.taps * chunk.channels * size, min(width, filters - column)
        for tile in range(tiles[0]):
            count, entries = read(0, places.counts + tile * WORD), entries_of(places, tile)
            targets, steps = targets_of(places, tile), chunk.channels
            if tile < tiles[1]:
                steps *= together
            if add and count == 0:
                continue
            narrow = columns <= lanes
            if columns in (lanes, width):
                multiply_places(like, steps, size, entries, count, sliver, targets, column * size, add, narrow)
            else:
                multiply_places(like, steps, size, entries, count, sliver, places.beside, 0, False, narrow)
                _merge_rows(like, targets, column * size, columns, places.waste, add)


@compiled
def _fill_tiles(like: Any, work: Any, chunk: Any, places: Any, tiles: Any, width: Any) -> None:
    """The entries of all tiles, and how many each has."""
    packs = work.horizontal.step * work.source.pixel % CROWDED == 0
    for tile in range(tiles[0]):
        inside = tile >= tiles[1]
        if work.joined > 1 and not inside:
            count = fill_joined(like, work, chunk, places, tile)
        elif inside and (work.joined > 1 or not packs):
            count = fill_inside(like, work, chunk, places, tile, width)
        else:
            count = fill(like, work, chunk, places, tile, packs, width)
        write(count, places.counts + tile * WORD)


@compiled
def _merge_rows(like: Any, targets: Any, right: Any, columns: Any, source: Any, add: Any) -> None:
    """Bring a tile that was made beside to its rows."""
    size = bytes_of(like)
    for row in range(ROWS):
        there = Matrix(read(0, targets + row * WORD) + right, 1, columns, 0, size)
        merge(like, source + row * sliver_width(like) * size, sliver_width(like), there, add)


@compiled
def _clear(like: Any, work: Any, row: Any, rows: Any, first: Any, filters: Any) -> None:
    """No tap reaches these outputs."""
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
