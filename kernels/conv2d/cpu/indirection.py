"""Indirection buffer: source and target addresses of output pixels, in place of copies of the pixels.

Pixels whose taps reach the same way beyond the border share tiles, so that a tap that sees only padding is skipped for
a whole tile. Source: Dukhan, "The Indirect Convolution Algorithm", 2019, arXiv:1907.02129.
"""

from typing import Any, NamedTuple

from ...cpu.compiled import compiled
from ...cpu.load_store import bytes_of, read, write
from ...cpu.microkernel import WORD
from ...cpu.packing import LINE, clear_run, copy_run
from ...cpu.simd import ROWS, VECTORS
from .indirect_microkernel import ENTRY

OUTSIDE = -(2**40)  # coordinate that no tap moves into the source
TILE = VECTORS * LINE  # bytes of a row of a tile
KINDS = 3  # kinds of outputs along an axis: some taps before the source, all inside, some behind
INTERIOR = 4  # kind of both axes with all taps inside


class IndirectionBuffer(NamedTuple):
    """Addresses of the tables of a block of pixels, for up to `most` pixels, and of the entries of its tiles."""

    pixels: int  # sources, then rows, columns and targets
    counts: int  # numbers of entries of the tiles
    entries: int
    rows: int  # row addresses of a tap of a tile, where they differ from those of its pixels
    taps: int  # maximum number of entries of a tile
    packed: int  # copies of pixels, `pitch` bytes each
    pitch: int
    zeros: int  # zeros, for taps outside
    scratch: int  # target of rows without pixels, and of scratch tiles
    scratch_targets: int  # row addresses of a scratch tile
    most: int


def indirection_nbytes(rows: int, taps: int, steps: int, columns: int, size: int) -> int:
    """Bytes of the indirection buffer without the packed copies."""
    return indirection_buffer(0, 0, 0, rows, taps, steps, size).scratch + max(columns * size, ROWS * TILE) + TILE


def indirection_buffer(address: Any, packed: Any, pitch: Any, rows: Any, taps: Any, steps: Any, size: Any) -> Any:
    """Layout of the buffer, one table after the other."""
    most = rows + ROWS
    tiles = most // ROWS + 1
    counts = address + 4 * WORD * most
    scratch_targets = counts + tiles * WORD
    entries = scratch_targets + ROWS * WORD
    seen = entries + tiles * taps * ENTRY * WORD
    zeros = (seen + tiles * taps * ROWS * WORD + TILE - 1) // TILE * TILE
    scratch = zeros + (steps * size + TILE - 1) // TILE * TILE + TILE
    return IndirectionBuffer(address, counts, entries, seen, taps, packed, pitch, zeros, scratch, scratch_targets, most)


@compiled
def entries_of(buffer: Any, tile: Any) -> Any:
    """Address of the entries of a tile."""
    return buffer.entries + tile * buffer.taps * ENTRY * WORD


@compiled
def targets_of(buffer: Any, tile: Any) -> Any:
    """Address of the target addresses of a tile."""
    return buffer.pixels + (3 * buffer.most + tile * ROWS) * WORD


@compiled
def _bounds(axis: Any) -> Any:
    """Range of the outputs all of whose taps lie inside the source."""
    begin = min(max(0, (-axis.start + axis.stride - 1) // axis.stride), axis.outputs)
    end = (axis.size - 1 - axis.start - (axis.taps - 1) * axis.dilation) // axis.stride + 1
    return begin, max(begin, min(end, axis.outputs))


@compiled
def _span(bounds: Any, kind: Any, outputs: Any) -> Any:
    """Range of the outputs of a kind."""
    if kind == 1:
        return bounds
    return (0, bounds[0]) if kind == 0 else (bounds[1], outputs)


@compiled
def collect_pixels(work: Any, pixels: Any, buffer: Any, filter_bytes: Any) -> Any:
    """Write source, coordinates and target of each pixel, grouped by kind, interior pixels last.

    Returns the number of tiles, and the first tile whose pixels are all interior.
    """
    count = 0
    for kind in range(KINDS * KINDS):
        if kind != INTERIOR:
            count = _write_kind(work, pixels, buffer, count, kind, filter_bytes)
    interior = (count + ROWS - 1) // ROWS
    return _pad_tile(buffer, _write_kind(work, pixels, buffer, count, INTERIOR, filter_bytes)), interior


@compiled
def _write_kind(work: Any, pixels: Any, buffer: Any, count: Any, kind: Any, filter_bytes: Any) -> Any:
    """Write the pixels of a kind; returns the number of pixels so far."""
    above, below = _span(_bounds(work.vertical), kind // KINDS, work.vertical.outputs)
    left, right = _span(_bounds(work.horizontal), kind % KINDS, work.horizontal.outputs)
    begin, end = max(pixels.first, left), min(pixels.first + pixels.width, right)
    for row in range(pixels.row, pixels.row + pixels.rows if begin < end else pixels.row):
        image, output = divmod(row, work.vertical.outputs)
        if above <= output < below:
            count = _write_row(work, buffer, count, image, output, begin, end, filter_bytes)
    return count


@compiled
def _pad_tile(buffer: Any, count: Any) -> Any:
    """Fill the last tile with rows that repeat the last pixel and write to scratch; returns the number of tiles."""
    tiles = (count + ROWS - 1) // ROWS
    for place in range(count, tiles * ROWS):
        _write_pixel(buffer, place, read(0, buffer.pixels + (count - 1) * WORD), OUTSIDE, OUTSIDE, buffer.scratch)
    for row in range(ROWS):
        write(buffer.scratch + row * TILE, buffer.scratch_targets + row * WORD)
    return tiles


@compiled
def _write_row(
    work: Any, buffer: Any, count: Any, image: Any, output: Any, begin: Any, end: Any, filter_bytes: Any
) -> Any:
    """Write some pixels of an output row; returns the number of pixels so far."""
    y = output * work.vertical.stride + work.vertical.start
    source = work.source.address + image * work.source.image + y * work.source.row
    target = work.target.address + image * work.target.image + output * work.target.row + filter_bytes
    for place in range(begin, end):
        x = place * work.horizontal.stride + work.horizontal.start
        _write_pixel(buffer, count, source + x * work.source.pixel, y, x, target + place * work.target.pixel)
        count += 1
    return count


@compiled
def _write_pixel(buffer: Any, place: Any, source: Any, y: Any, x: Any, target: Any) -> None:
    at, apart = buffer.pixels + place * WORD, buffer.most * WORD
    write(source, at)
    write(y, at + apart)
    write(x, at + 2 * apart)
    write(target, at + 3 * apart)


@compiled
def fill_interior_entries(like: Any, work: Any, k_block: Any, buffer: Any, tile: Any, width: Any) -> Any:
    """Fill the entries of a tile of interior pixels, which are read in place; returns their number."""
    size, rows = bytes_of(like), buffer.pixels + tile * ROWS * WORD
    for tap in range(k_block.taps):
        down, right = divmod(k_block.tap + tap, work.horizontal.taps // work.merged)
        offset = down * work.vertical.dilation * work.source.row + right * work.horizontal.dilation * work.source.pixel
        to = entries_of(buffer, tile) + tap * ENTRY * WORD
        _write_entry(to, rows, offset + k_block.channel * size, tap * k_block.channels * width * size)
    return k_block.taps


@compiled
def _write_entry(to: Any, rows: Any, offset: Any, sliver: Any) -> None:
    write(rows, to)
    write(offset, to + WORD)
    write(sliver, to + 2 * WORD)


@compiled
def fill_entries(like: Any, work: Any, k_block: Any, buffer: Any, tile: Any, copies: Any, width: Any) -> Any:
    """Fill the entries of a tile, one for each tap that any pixel sees; returns their number.

    `copies`: copy what they see.
    """
    size, count = bytes_of(like), 0
    for tap in range(k_block.taps):
        rows = buffer.rows + (tile * buffer.taps + count) * ROWS * WORD
        seen = False
        for row in range(ROWS):
            copy = buffer.packed + (tile * ROWS + row) * buffer.pitch + tap * k_block.channels * size
            there = _tap_source(like, work, k_block, buffer, tile * ROWS + row, tap, copies, copy)
            write(there, rows + row * WORD)
            seen = seen or there != buffer.zeros
        if seen:
            entry = entries_of(buffer, tile) + count * ENTRY * WORD
            _write_entry(entry, rows, 0, tap * k_block.channels * width * size)
            count += 1
    return count


@compiled
def _tap_source(like: Any, work: Any, k_block: Any, buffer: Any, place: Any, tap: Any, copies: Any, copy: Any) -> Any:
    """Address of the pixel that a tap sees, or of its copy."""
    at, apart = buffer.pixels + place * WORD, buffer.most * WORD
    down, right = divmod(k_block.tap + tap, work.horizontal.taps)
    y, x = (
        read(0, at + apart) + down * work.vertical.dilation,
        read(0, at + 2 * apart) + right * work.horizontal.dilation,
    )
    if y < 0 or y >= work.vertical.size or x < 0 or x >= work.horizontal.size:
        return buffer.zeros
    there = read(0, at) + down * work.vertical.dilation * work.source.row
    there += right * work.horizontal.dilation * work.source.pixel + k_block.channel * bytes_of(like)
    if not copies:
        return there
    copy_run(like, copy, there, k_block.channels)
    return copy


@compiled
def fill_merged_entries(like: Any, work: Any, k_block: Any, buffer: Any, tile: Any) -> Any:
    """Fill one entry with copies of the pixels that merged taps see, padded with zeros; returns 1."""
    rows = buffer.rows + tile * buffer.taps * ROWS * WORD
    for row in range(ROWS):
        copy = buffer.packed + (tile * ROWS + row) * buffer.pitch
        write(copy, rows + row * WORD)
        _copy_seen(like, work, k_block, buffer, tile * ROWS + row, copy)
    _write_entry(entries_of(buffer, tile), rows, 0, 0)
    return 1


@compiled
def _copy_seen(like: Any, work: Any, k_block: Any, buffer: Any, place: Any, copy: Any) -> None:
    """Copy what merged taps of a pixel see, padded with zeros."""
    size, run, vertical = bytes_of(like), work.source.channels, work.vertical
    at, apart = buffer.pixels + place * WORD, buffer.most * WORD
    y, x = read(0, at + apart), read(0, at + 2 * apart)
    begin = max(k_block.channel, -x * run)
    count = min(k_block.channel + k_block.channels, (work.horizontal.size - x) * run) - begin
    there = read(0, at) + begin * size
    for tap in range(k_block.tap, k_block.tap + k_block.taps):
        to, row = copy + (tap - k_block.tap) * k_block.channels * size, y + tap * vertical.dilation
        seen = 0 <= row < vertical.size
        if not seen or count < k_block.channels:
            clear_run(like, to, k_block.channels)
        if seen and count > 0:
            source = there + tap * vertical.dilation * work.source.row
            copy_run(like, to + (begin - k_block.channel) * size, source, count)
