"""The weights' gradient where pictures have few channels: taps of a row, side by side, are the rows of tiles.

The product is the transpose of that in weigh.py: what the taps see times the output's gradient. Of each picture some
rows are copied with zeros around them, so that every tap of every pixel finds a number. Threads share pixels out.
"""

from typing import Any, NamedTuple

from ...cpu.blocking import LINE, caches, share_of
from ...cpu.compiled import compiled
from ...cpu.function_pointer import address_of, call_at
from ...cpu.load_store import bytes_of, read, write
from ...cpu.macrokernel import Prefetcher, next_of, sliver_width
from ...cpu.microkernel import WORD
from ...cpu.packing import Matrix, clear_run, copy_run, pack_slivers
from ...cpu.parallel import in_team
from ...cpu.simd import ROWS, VECTORS, lanes
from ...cpu.workspace import workspace
from .geometry import Computation, Correlation, moved
from .indirect_microkernel import SHORT, STRIP, TALL, multiply_strip

_share = compiled(share_of)


class Room(NamedTuple):
    """Of a thread: outputs' rows at a time, and bytes to each of its parts; sums come first."""

    rows: int
    columns: int  # numbers of a row of a picture with the zeros around it
    high: int  # rows of a tile
    tall: int  # rows of the sums of a row of taps, in whole tiles
    pictures: int
    slivers: int
    entries: int
    nbytes: int


def weigh_few(work: Correlation, one: Any, threads: int) -> Computation:
    """Like `weigh`, of a correlation whose taps are joined."""
    room = _room(work, one.itemsize)

    def compute(source: int, weights: int, target: int) -> None:
        here, memory = moved(work, source, weights, target), workspace(threads * room.nbytes)
        if threads == 1:
            _weigh_few(one, here, 0, work.images * work.vertical.outputs, memory, room)
        else:
            each = address_of(_weigh_few, one, here, 0, 0, memory, room)
            _weigh_few_on_threads(each, threads, one, here, memory, room)
        _bring(one, here, memory, room.nbytes, threads, room.tall)

    return compute


def _room(work: Correlation, size: int) -> Room:
    width, (taps, run) = VECTORS * lanes(size), _rows_of_weights(work)
    outputs, vertical = work.horizontal.outputs, work.vertical
    near = caches()[1] * 2 // 3 // ((work.source.channels + work.target.channels) * size)
    rows = min(vertical.outputs, max(1, near // outputs))
    columns = ((outputs - 1) * work.horizontal.step + work.horizontal.taps) * work.source.channels
    seen = (rows - 1) * vertical.step + (taps - 1) * vertical.apart + 1
    filters = -(-work.target.channels // width) * width
    high = _height(run, work.target.channels <= lanes(size))
    tall = -(-run // high) * high
    beyond = high * size  # what a tile sees where its taps have fewer rows
    parts = [taps * tall * filters * size, seen * columns * size + beyond, rows * outputs * filters * size + LINE]
    parts += [rows * STRIP * WORD]
    ends = [sum(-(-part // LINE) * LINE for part in parts[: index + 1]) for index in range(len(parts))]
    return Room(rows, columns, high, tall, *ends)


def _height(run: int, narrow: bool) -> int:
    return ROWS if not narrow else TALL if run > SHORT else SHORT


def _rows_of_weights(work: Correlation) -> tuple[int, int]:
    """Rows of taps, and numbers in each."""
    return work.vertical.taps, work.horizontal.taps * work.source.channels


@compiled
def _weigh_few_on_threads(each: Any, threads: Any, like: Any, work: Any, memory: Any, room: Any) -> None:
    tall = _share(work.images * work.vertical.outputs, threads, 1)
    in_team(_weigh_few_share, threads, (each, tall, like, work, memory, room))


@compiled
def _weigh_few_share(thread: Any, each: Any, tall: Any, like: Any, work: Any, memory: Any, room: Any) -> None:
    call_at(_weigh_few, each, (like, work, thread * tall, tall, memory + thread * room.nbytes, room))


@compiled
def _weigh_few(like: Any, work: Any, first: Any, count: Any, memory: Any, room: Any) -> None:
    """The sums of some rows of outputs, by one thread."""
    end = min(first + count, work.images * work.vertical.outputs)
    clear_run(like, memory, room.pictures // bytes_of(like))
    row = first
    while row < end:
        image, output = divmod(row, work.vertical.outputs)
        rows = min(room.rows, end - row, work.vertical.outputs - output)
        _copy_picture(like, work, image, output, rows, memory + room.pictures, room)
        if not _fits(like, work):
            _pack_gradient(like, work, image, output, rows, memory + room.slivers)
        _write_entries(like, work, image, output, rows, memory, room)
        row += rows
        _multiply(like, work, output, rows, memory, room, _after(work, image, output + rows, rows))


@compiled
def _copy_picture(like: Any, work: Any, image: Any, output: Any, rows: Any, target: Any, room: Any) -> None:
    """What the taps of some rows of outputs see, and zeros where they see nothing."""
    size, channels, vertical = bytes_of(like), work.source.channels, work.vertical
    before = min(-min(work.horizontal.start, 0), room.columns // channels)
    from_ = max(work.horizontal.start, 0)
    inside = max(0, min(work.horizontal.size - from_, room.columns // channels - before))
    for row in range((rows - 1) * vertical.step + (vertical.taps - 1) * vertical.apart + 1):
        to, place = target + row * room.columns * size, output * vertical.step + vertical.start + row
        clear_run(like, to, room.columns)
        if 0 <= place < vertical.size:
            seen = work.source.address + image * work.source.image + place * work.source.row
            copy_run(like, to + before * channels * size, seen + from_ * work.source.pixel, inside * channels)


@compiled
def _pack_gradient(like: Any, work: Any, image: Any, output: Any, rows: Any, target: Any) -> None:
    """Slivers of the output's gradient, row by row of outputs."""
    size, outputs, width = bytes_of(like), work.horizontal.outputs, sliver_width(like)
    for row in range(rows):
        seen = work.target.address + image * work.target.image + (output + row) * work.target.row
        matrix = Matrix(seen, outputs, work.target.channels, work.target.pixel, size)
        pack_slivers(like, target + row * outputs * width * size, width, matrix, rows * outputs)


@compiled
def _fits(like: Any, work: Any) -> Any:
    """Whether pixels of the output's gradient are rows of slivers as they lie."""
    nbytes = work.target.channels * bytes_of(like)
    return nbytes == LINE or nbytes % (sliver_width(like) * bytes_of(like)) == 0


@compiled
def _after(work: Any, image: Any, output: Any, rows: Any) -> Any:
    """What is wanted after these rows: so many more of this picture, or of the next."""
    if output >= work.vertical.outputs:
        image, output = image + 1, 0
    seen = work.source.address + image * work.source.image
    seen += max(0, output * work.vertical.step + work.vertical.start) * work.source.row
    gradient = work.target.address + image * work.target.image + output * work.target.row
    return Prefetcher(seen, rows * work.vertical.step * work.source.row, gradient, rows * work.target.row)


@compiled
def _write_entries(like: Any, work: Any, image: Any, output: Any, rows: Any, memory: Any, room: Any) -> None:
    """Of each row of outputs where the pixels that the first tap sees begin, and the gradient."""
    size = bytes_of(like)
    gradient, down = memory + room.slivers, work.horizontal.outputs * sliver_width(like) * size
    if _fits(like, work):
        gradient = work.target.address + image * work.target.image + output * work.target.row
        down = work.target.row
    for row in range(rows):
        entry = memory + room.entries + row * STRIP * WORD
        write(memory + room.pictures + row * work.vertical.step * room.columns * size, entry)
        write(gradient + row * down, entry + WORD)


@compiled
def _multiply(like: Any, work: Any, output: Any, rows: Any, memory: Any, room: Any, ahead: Any) -> None:
    """Add the products of some rows of outputs to the sums, tile by tile; none has rows of two taps."""
    size, width, outputs = bytes_of(like), sliver_width(like), work.horizontal.outputs
    run, filters = work.horizontal.taps * work.source.channels, (work.target.channels + width - 1) // width * width
    apart, pitch = work.horizontal.step * work.source.pixel, width * size
    to_sliver = rows * outputs * size
    if _fits(like, work):
        pitch, to_sliver = work.target.pixel, size
    fetched, entries = 0, memory + room.entries
    for tap in range(work.vertical.taps):
        tile, (skipped, seen) = memory + tap * room.tall * filters * size, _inside(work, output, rows, tap)
        for _ in range(0, run, room.high):
            for column in range(0, filters, width):
                near = next_of(ahead, fetched)
                fetched += rows * outputs * LINE
                multiply_strip(
                    like, outputs, apart, entries + skipped * STRIP * WORD, seen, pitch,
                    tile + column * size, filters * size, room.high, near,
                )
                _shift(entries, rows, 0, width * to_sliver)
            _shift(entries, rows, room.high * size, -filters * to_sliver)
            tile += room.high * filters * size
        back = (run + room.high - 1) // room.high * room.high * size
        _shift(entries, rows, work.vertical.apart * room.columns * size - back, 0)


@compiled
def _inside(work: Any, output: Any, rows: Any, tap: Any) -> Any:
    """Of some rows of outputs how many begin above what a tap sees of the picture, and how many see it."""
    vertical = work.vertical
    first, step = output * vertical.step + vertical.start + tap * vertical.apart, vertical.step
    begin, end = max(0, -(first // step)), max(0, (vertical.size - first + step - 1) // step)
    return min(begin, rows), max(0, min(end, rows) - min(begin, rows))


@compiled
def _shift(entries: Any, rows: Any, seen: Any, gradient: Any) -> None:
    """All entries lead so many bytes further on."""
    for entry in range(entries, entries + rows * STRIP * WORD, STRIP * WORD):
        write(read(0, entry) + seen, entry)
        write(read(0, entry + WORD) + gradient, entry + WORD)


@compiled
def _bring(like: Any, work: Any, memory: Any, apart: Any, threads: Any, tall: Any) -> None:
    """The sums of all threads, transposed, to where the weights belong."""
    in_team(_bring_filters, threads, (like, work, memory, apart, threads, tall))


@compiled
def _bring_filters(first: Any, like: Any, work: Any, memory: Any, apart: Any, threads: Any, tall: Any) -> None:
    """Of every so manieth filter, as many as there are threads, from the first on."""
    size, width = bytes_of(like), sliver_width(like)
    run, filters = work.horizontal.taps * work.source.channels, (work.target.channels + width - 1) // width * width
    for filter_ in range(first, work.target.channels, threads):
        for row in range(work.vertical.taps * run):
            tap, number = divmod(row, run)
            total = like - like
            for thread in range(threads):
                total += read(like, memory + thread * apart + ((tap * tall + number) * filters + filter_) * size)
            write(total, work.weights.address + filter_ * work.weights.filter + row * size)
