"""Where the rows of tiles come from and go to: addresses for each output pixel and tap, so that little is copied.

Pixels whose taps reach alike are brought together: a tap that sees nothing is left out for a whole tile.
After Dukhan, "The Indirect Convolution Algorithm", 2019, arXiv:1907.02129.
"""

from typing import Any, NamedTuple

from ...cpu.compiled import compiled
from ...cpu.load_store import bytes_of, read, write
from ...cpu.microkernel import WORD
from ...cpu.packing import LINE, clear_run, copy_run
from ...cpu.simd import ROWS, VECTORS
from .indirect_microkernel import ENTRY

NOWHERE = -(2**40)  # a row of the source that no tap reaches
TILE = VECTORS * LINE  # bytes of a row of a tile
KINDS = 3  # of outputs along an axis: some taps before the source, all inside, some behind
INSIDE = 4  # of the kinds of both axes: all inside


class Tables(NamedTuple):
    """Addresses of what is known of the pixels of a block, `most` of each kind, and of what leads tiles to them."""

    pixels: int  # sources, then rows, columns and targets
    counts: int  # of the entries of each tile
    entries: int
    rows: int  # addresses of what a tap of a tile sees, where these are not those of its pixels
    taps: int  # most entries of a tile
    packed: int  # what was copied, `pitch` bytes a pixel
    pitch: int
    zeros: int  # what a tap outside sees
    waste: int  # where rows go that there are no pixels for, and a tile that is made beside
    beside: int  # targets of that tile
    most: int


def tables_nbytes(rows: int, taps: int, steps: int, columns: int, size: int) -> int:
    """Bytes of all but what was copied."""
    return tables(0, 0, 0, rows, taps, steps, size).waste + max(columns * size, ROWS * TILE) + TILE


def tables(address: Any, packed: Any, pitch: Any, rows: Any, taps: Any, steps: Any, size: Any) -> Any:
    """Where they lie, one after the other."""
    most = rows + ROWS
    tiles = most // ROWS + 1
    counts = address + 4 * WORD * most
    beside = counts + tiles * WORD
    entries = beside + ROWS * WORD
    seen = entries + tiles * taps * ENTRY * WORD
    zeros = (seen + tiles * taps * ROWS * WORD + TILE - 1) // TILE * TILE
    waste = zeros + (steps * size + TILE - 1) // TILE * TILE + TILE
    return Tables(address, counts, entries, seen, taps, packed, pitch, zeros, waste, beside, most)


@compiled
def entries_of(tables: Any, tile: Any) -> Any:
    """Where the entries of a tile lie."""
    return tables.entries + tile * tables.taps * ENTRY * WORD


@compiled
def targets_of(tables: Any, tile: Any) -> Any:
    """Where the addresses of a tile's targets lie."""
    return tables.pixels + (3 * tables.most + tile * ROWS) * WORD


@compiled
def _bounds(axis: Any) -> Any:
    """The outputs whose taps all lie inside: from which on, and up to which."""
    begin = min(max(0, (-axis.start + axis.step - 1) // axis.step), axis.outputs)
    end = (axis.size - 1 - axis.start - (axis.taps - 1) * axis.apart) // axis.step + 1
    return begin, max(begin, min(end, axis.outputs))


@compiled
def _span(bounds: Any, kind: Any, outputs: Any) -> Any:
    """The outputs of a kind."""
    if kind == 1:
        return bounds
    return (0, bounds[0]) if kind == 0 else (bounds[1], outputs)


@compiled
def arrange(work: Any, pixels: Any, tables: Any, filter_bytes: Any) -> Any:
    """Write down each pixel's source, place and target, like ones together, those last whose taps all lie inside.

    How many tiles they make, and from which on all taps of all pixels lie inside.
    """
    count = 0
    for kind in range(KINDS * KINDS):
        if kind != INSIDE:
            count = _write_kind(work, pixels, tables, count, kind, filter_bytes)
    inside = (count + ROWS - 1) // ROWS
    return _fill_up(tables, _write_kind(work, pixels, tables, count, INSIDE, filter_bytes)), inside


@compiled
def _write_kind(work: Any, pixels: Any, tables: Any, count: Any, kind: Any, filter_bytes: Any) -> Any:
    """The pixels of a kind; how many there are then."""
    above, below = _span(_bounds(work.vertical), kind // KINDS, work.vertical.outputs)
    left, right = _span(_bounds(work.horizontal), kind % KINDS, work.horizontal.outputs)
    begin, end = max(pixels.first, left), min(pixels.first + pixels.width, right)
    for row in range(pixels.row, pixels.row + pixels.rows if begin < end else pixels.row):
        image, output = divmod(row, work.vertical.outputs)
        if above <= output < below:
            count = _write_row(work, tables, count, image, output, begin, end, filter_bytes)
    return count


@compiled
def _fill_up(tables: Any, count: Any) -> Any:
    """Rows without pixels, up to a whole tile, which may see what the last pixel sees; the number of tiles."""
    tiles = (count + ROWS - 1) // ROWS
    for place in range(count, tiles * ROWS):
        _write_pixel(tables, place, read(0, tables.pixels + (count - 1) * WORD), NOWHERE, NOWHERE, tables.waste)
    for row in range(ROWS):
        write(tables.waste + row * TILE, tables.beside + row * WORD)
    return tiles


@compiled
def _write_row(
    work: Any, tables: Any, count: Any, image: Any, output: Any, begin: Any, end: Any, filter_bytes: Any
) -> Any:
    """Some pixels of a row of outputs; how many there are then."""
    y = output * work.vertical.step + work.vertical.start
    source = work.source.address + image * work.source.image + y * work.source.row
    target = work.target.address + image * work.target.image + output * work.target.row + filter_bytes
    for place in range(begin, end):
        x = place * work.horizontal.step + work.horizontal.start
        _write_pixel(tables, count, source + x * work.source.pixel, y, x, target + place * work.target.pixel)
        count += 1
    return count


@compiled
def _write_pixel(tables: Any, place: Any, source: Any, y: Any, x: Any, target: Any) -> None:
    at, apart = tables.pixels + place * WORD, tables.most * WORD
    write(source, at)
    write(y, at + apart)
    write(x, at + 2 * apart)
    write(target, at + 3 * apart)


@compiled
def fill_inside(like: Any, work: Any, chunk: Any, tables: Any, tile: Any, width: Any) -> Any:
    """The entries of a tile whose pixels see something by all taps, as it lies; how many."""
    size, rows = bytes_of(like), tables.pixels + tile * ROWS * WORD
    for tap in range(chunk.taps):
        down, right = divmod(chunk.tap + tap, work.horizontal.taps // work.joined)
        behind = down * work.vertical.apart * work.source.row + right * work.horizontal.apart * work.source.pixel
        to = entries_of(tables, tile) + tap * ENTRY * WORD
        _write_entry(to, rows, behind + chunk.channel * size, tap * chunk.channels * width * size)
    return chunk.taps


@compiled
def _write_entry(to: Any, rows: Any, behind: Any, sliver: Any) -> None:
    write(rows, to)
    write(behind, to + WORD)
    write(sliver, to + 2 * WORD)


@compiled
def fill(like: Any, work: Any, chunk: Any, tables: Any, tile: Any, packs: Any, width: Any) -> Any:
    """Entries of a tile: of each tap that any of its pixels sees; how many. `packs`: all they lead to is copied."""
    size, count = bytes_of(like), 0
    for tap in range(chunk.taps):
        rows = tables.rows + (tile * tables.taps + count) * ROWS * WORD
        seen = False
        for row in range(ROWS):
            copy = tables.packed + (tile * ROWS + row) * tables.pitch + tap * chunk.channels * size
            there = _seen(like, work, chunk, tables, tile * ROWS + row, tap, packs, copy)
            write(there, rows + row * WORD)
            seen = seen or there != tables.zeros
        if seen:
            entry = entries_of(tables, tile) + count * ENTRY * WORD
            _write_entry(entry, rows, 0, tap * chunk.channels * width * size)
            count += 1
    return count


@compiled
def _seen(like: Any, work: Any, chunk: Any, tables: Any, place: Any, tap: Any, packs: Any, copy: Any) -> Any:
    """The address of what a tap of a pixel sees, or of a copy."""
    at, apart = tables.pixels + place * WORD, tables.most * WORD
    down, right = divmod(chunk.tap + tap, work.horizontal.taps)
    y, x = read(0, at + apart) + down * work.vertical.apart, read(0, at + 2 * apart) + right * work.horizontal.apart
    if y < 0 or y >= work.vertical.size or x < 0 or x >= work.horizontal.size:
        return tables.zeros
    there = read(0, at) + down * work.vertical.apart * work.source.row
    there += right * work.horizontal.apart * work.source.pixel + chunk.channel * bytes_of(like)
    if not packs:
        return there
    copy_run(like, copy, there, chunk.channels)
    return copy


@compiled
def fill_joined(like: Any, work: Any, chunk: Any, tables: Any, tile: Any) -> Any:
    """One entry, of copies of all that taps which are joined see, with zeros where that is nothing."""
    rows = tables.rows + tile * tables.taps * ROWS * WORD
    for row in range(ROWS):
        copy = tables.packed + (tile * ROWS + row) * tables.pitch
        write(copy, rows + row * WORD)
        _copy_seen(like, work, chunk, tables, tile * ROWS + row, copy)
    _write_entry(entries_of(tables, tile), rows, 0, 0)
    return 1


@compiled
def _copy_seen(like: Any, work: Any, chunk: Any, tables: Any, place: Any, copy: Any) -> None:
    """What joined taps of a pixel see, which may be something in part, and zeros around it."""
    size, run, vertical = bytes_of(like), work.source.channels, work.vertical
    at, apart = tables.pixels + place * WORD, tables.most * WORD
    y, x = read(0, at + apart), read(0, at + 2 * apart)
    begin = max(chunk.channel, -x * run)
    count = min(chunk.channel + chunk.channels, (work.horizontal.size - x) * run) - begin
    there = read(0, at) + begin * size
    for tap in range(chunk.tap, chunk.tap + chunk.taps):
        to, row = copy + (tap - chunk.tap) * chunk.channels * size, y + tap * vertical.apart
        seen = 0 <= row < vertical.size
        if not seen or count < chunk.channels:
            clear_run(like, to, chunk.channels)
        if seen and count > 0:
            source = there + tap * vertical.apart * work.source.row
            copy_run(like, to + (begin - chunk.channel) * size, source, count)
