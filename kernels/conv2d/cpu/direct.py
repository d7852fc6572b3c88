"""A correlation of few channels in Numba: row by row of outputs, tiles slide along rows of the source that are copied.

Channels fill lines of the cache, and a row has pixels for a tile. Threads share the rows of outputs out.
"""

from typing import Any, NamedTuple

from ...cpu.blocking import share_of
from ...cpu.compiled import compiled
from ...cpu.epilogue import Epilogue, finish, no_epilogue
from ...cpu.function_pointer import address_of, call_at
from ...cpu.load_store import bytes_of, read, write
from ...cpu.macrokernel import sliver_width
from ...cpu.microkernel import WORD
from ...cpu.packing import Matrix, pack_slivers
from ...cpu.parallel import in_team
from ...cpu.simd import LINE, OWN, VECTORS
from ...cpu.workspace import workspace
from .direct_microkernel import ENTRY, HEIGHTS, multiply_pixels
from .geometry import Computation, Correlation, moved
from .row_buffer import Ring, fill_row, nbytes_of, place_of, ring_of

MOST = 2**18  # bytes of the weights, and of the rows that are copied: they stay in the second cache
LEAST = HEIGHTS[1][-1]  # pixels of the lowest tile
_share = compiled(share_of)


class Tiles(NamedTuple):
    """Of a row: so many tiles of so many pixels, of which all but the first few have one less."""

    number: int
    height: int
    full: int


class Plan(NamedTuple):
    """Of a thread: `Tiles` of whole slivers and of one vector; bytes to its parts, the first is weights."""

    wide_number: int
    wide_height: int
    wide_full: int
    narrow_number: int
    narrow_height: int
    narrow_full: int
    places: int
    entries: int
    ring: int
    nbytes: int


def slides(work: Correlation, size: int) -> bool:
    """Whether `slide` computes a correlation of numbers of `size` bytes."""
    lines = work.source.channels * size % LINE == 0 and work.target.channels * size % OWN.nbytes == 0
    taps, outputs = work.vertical.taps * work.horizontal.taps, work.horizontal.outputs
    if not (lines and taps and outputs >= LEAST and work.vertical.apart > 0):
        return False
    plan = _plan(work, ring_of(0, work, size), size)
    return plan.nbytes <= MOST


def slide(work: Correlation, one: Any, threads: int) -> Computation:
    """What fills the target of a correlation that slides, whose numbers are like `one`."""
    ring = ring_of(0, work, one.itemsize)
    plan = _plan(work, ring, one.itemsize)
    nothing = no_epilogue(one)

    def compute(source: int, weights: int, target: int, then: Epilogue | None = nothing) -> None:
        here, memory = moved(work, source, weights, target), workspace(threads * plan.nbytes)
        if threads == 1:
            _slide(one, here, ring, plan, 0, work.images * work.vertical.outputs, memory, then)
        else:
            each = address_of(_slide, one, here, ring, plan, 0, 0, memory, then)
            _slide_on_threads(each, threads, one, here, ring, plan, memory, then)

    return compute


def _plan(work: Correlation, ring: Ring, size: int) -> Plan:
    width = VECTORS * OWN.nbytes
    filters = -(-work.target.channels * size // width) * width
    taps = work.vertical.taps * work.horizontal.taps
    lines = taps * (work.source.channels * size // LINE)
    places = lines * LINE * filters // size
    entries = places + lines * WORD
    rows = -(-(entries + lines * ENTRY * WORD) // LINE) * LINE
    outputs = work.horizontal.outputs
    return Plan(*_tiles(VECTORS, outputs), *_tiles(1, outputs), places, entries, rows, rows + nbytes_of(ring))


def _tiles(vectors: int, outputs: int) -> Tiles:
    """Those that compute the fewest pixels twice, and of these the tallest: low tiles are slower."""

    def of(height: int) -> Tiles:
        number = -(-outputs // height)
        fills = height - 1 in HEIGHTS[vectors] and number * (height - 1) <= outputs
        return Tiles(number, height, outputs - number * (height - 1) if fills else number)

    choices = [of(height) for height in HEIGHTS[vectors] if height <= outputs]
    return min(choices, key=lambda each: (each.number * (each.height - 1) + each.full, each.number))


@compiled
def _slide_on_threads(
    each: Any, threads: Any, like: Any, work: Any, ring: Any, plan: Any, memory: Any, then: Any
) -> None:
    tall = _share(work.images * work.vertical.outputs, threads, 1)
    in_team(_slide_share, threads, (each, tall, like, work, ring, plan, memory, then))


@compiled
def _slide_share(
    thread: Any, each: Any, tall: Any, like: Any, work: Any, ring: Any, plan: Any, memory: Any, then: Any
) -> None:
    rows = work.images * work.vertical.outputs
    if thread * tall < rows:
        own, high = memory + thread * plan.nbytes, min(tall, rows - thread * tall)
        call_at(_slide, each, (like, work, ring, plan, thread * tall, high, own, then))


@compiled
def _slide(like: Any, work: Any, ring: Any, plan: Any, first: Any, count: Any, memory: Any, then: Any) -> None:
    """Some rows of outputs, by one thread."""
    target, outputs = work.target, work.horizontal.outputs
    own = Ring(memory + plan.ring, ring.rows, ring.row, ring.line, ring.phase, ring.pixels, ring.first)
    _pack(like, work, memory)
    _write_places(like, work, own, memory + plan.places)
    vertical, filled = work.vertical, 0
    for row in range(first, first + count):
        image, output = divmod(row, vertical.outputs)
        begin = output * vertical.step + vertical.start
        end = begin + (vertical.taps - 1) * vertical.apart + 1
        filled = max(0, begin) if output == 0 or row == first else max(filled, begin)
        for y in range(filled, min(end, vertical.size)):
            fill_row(like, work, own, image, y)
        filled = max(filled, end)
        entries = _write_entries(like, work, own, begin, memory + plan.places, memory + plan.entries)
        _multiply(like, work, own, plan, image, output, entries, memory, _after(work, image, filled))
        made = target.address + image * target.image + output * target.row
        finish(like, then, made, outputs, target.pixel, 0, target.channels)


@compiled
def _after(work: Any, image: Any, y: Any) -> Any:
    """Where the row of the source that will be copied next begins."""
    if y >= work.vertical.size:
        image, y = image + 1, 0
    return work.source.address + image * work.source.image + y * work.source.row


@compiled
def _pack(like: Any, work: Any, target: Any) -> None:
    """Slivers of the weights, tap by tap."""
    size, width, channels = bytes_of(like), sliver_width(like), work.source.channels
    taps = work.vertical.taps * work.horizontal.taps
    for tap in range(taps):
        down, right = divmod(tap, work.horizontal.taps)
        there = work.weights.address + down * work.weights.down + right * work.weights.right
        matrix = Matrix(there, channels, work.target.channels, work.weights.channel, work.weights.filter)
        pack_slivers(like, target + tap * channels * width * size, width, matrix, taps * channels)


@compiled
def _write_places(like: Any, work: Any, ring: Any, places: Any) -> None:
    """Where in a row of the source each line that a tap sees lies, tap by tap."""
    for right in range(work.horizontal.taps):
        seen = place_of(ring, work.horizontal, right)
        for line in range(_lines(like, work)):
            write(seen + line * ring.line, places)
            places += WORD


@compiled
def _lines(like: Any, work: Any) -> Any:
    """Of a pixel."""
    return work.source.channels * bytes_of(like) // LINE


@compiled
def _write_entries(like: Any, work: Any, ring: Any, begin: Any, places: Any, entries: Any) -> Any:
    """An entry for each line that a row of outputs sees by each tap that is not outside; how many."""
    nbytes, each = LINE * sliver_width(like), work.horizontal.taps * _lines(like, work)
    count = 0
    for down in range(work.vertical.taps):
        y = begin + down * work.vertical.apart
        if 0 <= y < work.vertical.size:
            row = y % ring.rows * ring.row
            for place in range(each):
                write(row + read(0, places + place * WORD), entries + count * ENTRY * WORD)
                write((down * each + place) * nbytes, entries + (count * ENTRY + 1) * WORD)
                count += 1
    return count


@compiled
def _multiply(
    like: Any, work: Any, ring: Any, plan: Any, image: Any, output: Any, count: Any, memory: Any, ahead: Any
) -> None:
    """A row of outputs: the last tile ends where the row does. What is `ahead` is brought near meanwhile."""
    size, width, target = bytes_of(like), sliver_width(like), work.target
    nbytes = work.vertical.taps * work.horizontal.taps * work.source.channels * size
    to = target.address + image * target.image + output * target.row
    on = _pace(like, work, plan, count)
    for column in range(0, target.channels, width):
        narrow = target.channels - column < width
        tiles, begin = _tiles_of(plan, narrow), 0
        for tile in range(tiles.number):
            height = tiles.height - (tile >= tiles.full)
            first = min(begin, work.horizontal.outputs - height)
            begin += height
            seen, there = ring.address + first * LINE, to + first * target.pixel + column * size
            multiply_pixels(
                like, seen, memory + plan.entries, count, memory + column * nbytes, there, target.pixel, height,
                narrow, ahead, on,
            )
            ahead += on * count


@compiled
def _tiles_of(plan: Any, narrow: Any) -> Tiles:
    if narrow:
        return Tiles(plan.narrow_number, plan.narrow_height, plan.narrow_full)
    return Tiles(plan.wide_number, plan.wide_height, plan.wide_full)


@compiled
def _pace(like: Any, work: Any, plan: Any, count: Any) -> Any:
    """Bytes of what is ahead for each entry of each tile of a row: whole lines."""
    width = sliver_width(like)
    rows = min(work.vertical.step, work.vertical.taps)
    tiles = max(1, work.horizontal.outputs // plan.narrow_height * ((work.target.channels + width - 1) // width))
    return (rows * work.source.row // (tiles * max(1, count)) + LINE - 1) // LINE * LINE
