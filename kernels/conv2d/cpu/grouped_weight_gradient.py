"""Weight gradient in groups that divide or fill vectors, depth-wise layers among them.

Blocks of channels of some pixels, which stay in the cache, are read once for each row of taps. Threads divide the
output rows, and their sums are added at the end.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from ...cpu.blocking import caches, largest_part
from ...cpu.compiled import compiled
from ...cpu.function_pointer import FunctionPointer, call_pointer, function_pointer
from ...cpu.load_store import add_vector, bytes_of, read
from ...cpu.microkernel import WORD
from ...cpu.packing import LINE as VECTOR
from ...cpu.packing import clear_run
from ...cpu.parallel import parallel_for
from ...cpu.simd import HOST, LINE
from ...cpu.stored_arguments import Stored, reading, words
from .. import Shape
from .computation import Computation
from .geometry import ArrayLayout, Axis, ImageLayout, WeightLayout, forward_axis, images, weights
from .grouped_gradient_microkernel import accumulate_taps, widths
from .grouped_microkernel import prefetch_part, prefetch_read
from .grouped_plan import fills_vectors, is_whole, vectors_of
from .grouped_weights import unpack
from .im2col import valid_outputs
from .runs import Run, runs
from .whole_group_microkernel import accumulate_whole

PIECE = 6  # 64-bit words
WIDE = 8  # outputs of a row at a time, which the rows of taps find in L1, and whose successors are prefetched meanwhile
_part_size = compiled(largest_part)


class Layer(NamedTuple):
    """Numbers and byte distances of a layer.

    group: channels of a group. vectors: of a block of channels, `block` bytes. nbytes: of all channels. taps: of a
    filter. across: taps of a row. pieces: in the table. strip: rows of outputs that are read block by block.
    packed: bytes of all sums. in_order: whether what the next rows see is prefetched in the order of the memory.
    """

    group: int
    vectors: int
    block: int
    nbytes: int
    taps: int
    across: int
    images: int
    pieces: int
    strip: int
    packed: int
    in_order: int


PARTS = Layer, Axis, Axis, ImageLayout, ImageLayout, WeightLayout, FunctionPointer  # of a plan, before the table
_read_stored, TABLE = reading(*PARTS), words(*PARTS) * WORD


def plan_grouped_weight_gradient(
    x: ArrayLayout, w: ArrayLayout, y: ArrayLayout, shape: Shape, one: Any, threads: int
) -> Computation:
    """What fills w, contiguous, with its gradient from x and the gradient of y, for arrays without addresses."""
    vertical, horizontal = (forward_axis(shape, axis) for axis in (0, 1))
    source, given, own = images(x, 0, 1), images(y, 0, 1), weights(w, 0, 1)
    group = shape.channels // shape.groups
    vectors = vectors_of(shape.channels, group, x.itemsize)
    allowed = [1] if fills_vectors(group, x.itemsize) else widths(vectors, group)
    table = (*_pieces(horizontal, source, given, allowed),)
    layer = _layer(shape, group, vectors, len(table) // PIECE, source, given, x.itemsize)
    pointer = function_pointer(_add_gradient, one, layer, vertical, horizontal, source, given, 0, 0, 0, 0)
    stored = Stored(layer, vertical, horizontal, source, given, own, pointer, table)
    return Computation(_compute, one, stored, threads, threads * layer.packed)


@compiled
def _compute(
    like: Any, stored: Any, threads: Any, source: Any, weights: Any, target: Any, memory: Any, epilogue: Any
) -> None:
    layer, vertical, horizontal, x, y, w, pointer = _read_stored(stored)
    seen, given = _at(x, source), _at(y, target)
    rows, arguments = layer.images * vertical.outputs, (layer, vertical, horizontal, seen, given, stored + TABLE)
    if threads == 1:
        call_pointer(_add_gradient, pointer, (like, *arguments, 0, rows, memory))
    else:
        parallel_for(_add_gradient_part, threads, (pointer, _part_size(rows, threads, 1), like, *arguments, memory))
    own = WeightLayout(w.address + weights, w.down, w.right, w.channel, w.filter)
    _store(like, layer, own, memory, threads)


@compiled
def _at(images: Any, address: Any) -> Any:
    return ImageLayout(images.address + address, images.image, images.row, images.pixel, images.channels)


def _layer(
    shape: Shape, group: int, vectors: int, pieces: int, source: ImageLayout, given: ImageLayout, size: int
) -> Layer:
    block, nbytes, taps = vectors * HOST.nbytes, shape.channels * size, shape.kernel[0] * shape.kernel[1]
    packed = -(-(-(-nbytes // block) * taps * group * block) // LINE) * LINE
    down, right = shape.stride
    in_l1 = caches()[1] // 2 // (block * min(WIDE, shape.y[3]) * (down * right + 1))
    in_l2 = caches()[2] // 4 // (down * source.row + given.row)
    strip = max(1, min(in_l1, in_l2, shape.y[2]))
    in_order = int(source.image <= caches()[2] // 3)  # of larger images each piece prefetches its next rows
    return Layer(group, vectors, block, nbytes, taps, shape.kernel[1], shape.batch, pieces, strip, packed, in_order)


def _pieces(axis: Axis, source: ImageLayout, given: ImageLayout, allowed: Sequence[int]) -> Iterator[int]:
    """Neighbouring outputs, piece by piece of the taps that they see.

    Offsets of what is seen and of the gradient, outputs, first tap, taps, pieces of these outputs from here on.
    """
    for run in runs(axis):
        pieces = [*_taps(run, allowed)]
        for first in range(run.first, run.first + run.outputs, WIDE):
            outputs = min(WIDE, run.first + run.outputs - first)
            for place, (tap, taps) in enumerate(pieces):
                seen = first * axis.stride + axis.start + tap * axis.dilation
                yield from (seen * source.pixel, first * given.pixel, outputs, tap, taps, len(pieces) - place)


def _taps(run: Run, allowed: Sequence[int]) -> Iterator[tuple[int, int]]:
    """First tap and number of taps of the pieces of a run."""
    tap, end = run.first_tap, run.first_tap + run.taps
    while tap < end:
        taps = max(width for width in allowed if width <= end - tap)
        yield tap, taps
        tap += taps


@compiled
def _add_gradient_part(
    thread: Any, pointer: Any, tall: Any, like: Any, layer: Any, vertical: Any, horizontal: Any, source: Any,
    given: Any, table: Any, memory: Any,
) -> None:
    first, count = thread * tall, layer.images * vertical.outputs - thread * tall
    own = memory + thread * layer.packed
    arguments = (like, layer, vertical, horizontal, source, given, table, first, max(0, min(tall, count)), own)
    call_pointer(_add_gradient, pointer, arguments)


@compiled
def _add_gradient(
    like: Any, layer: Any, vertical: Any, horizontal: Any, source: Any, given: Any, table: Any, first: Any, count: Any,
    memory: Any,
) -> None:
    """The sums of some output rows, counted through all images, by one thread."""
    clear_run(like, memory, layer.packed // bytes_of(like))
    row, end, apart = first, first + count, layer.taps * layer.group * layer.block
    while row < end:
        image, output = divmod(row, vertical.outputs)
        rows = min(layer.strip, end - row, vertical.outputs - output)
        seen, gradient = source.address + image * source.image, given.address + image * given.image
        x, g = _ahead(vertical, source, given, image, output + rows)
        for begin in range(0, layer.nbytes, layer.block):
            if layer.in_order:
                prefetch_part(x, rows * vertical.stride * source.row, begin, layer.block, layer.nbytes)
                prefetch_part(g, rows * given.row, begin, layer.block, layer.nbytes)
            at, sums = min(begin, layer.nbytes - layer.block), memory + begin // layer.block * apart
            _add_block(
                like, layer, vertical, horizontal, source, given, seen + at, gradient + at, output, rows, table, sums
            )
        row += rows


@compiled
def _add_block(
    like: Any, layer: Any, vertical: Any, horizontal: Any, source: Any, given: Any, seen: Any, gradient: Any,
    output: Any, rows: Any, table: Any, sums: Any,
) -> None:
    """Add the products of a block of channels, some neighbouring outputs of the rows after the others."""
    piece, end = table, table + layer.pieces * PIECE * WORD
    while piece < end:
        pieces = read(0, piece + 5 * WORD)
        for down in range(vertical.taps):
            if not layer.in_order:
                _prefetch(vertical, horizontal, source, given, seen, gradient, output, rows, down, piece)
            _add_row_of_taps(
                like, layer, vertical, horizontal, source, given, seen, gradient, output, rows, down, piece, pieces,
                sums,
            )
        piece += pieces * PIECE * WORD


@compiled
def _add_row_of_taps(
    like: Any, layer: Any, vertical: Any, horizontal: Any, source: Any, given: Any, seen: Any, gradient: Any,
    output: Any, rows: Any, down: Any, first: Any, pieces: Any, sums: Any,
) -> None:
    """Add the products of some output rows with what a row of taps sees, for a block of channels."""
    begin, end = valid_outputs(vertical, down, output, rows)
    from_ = seen + (begin * vertical.stride + vertical.start + down * vertical.dilation) * source.row
    steps, pixels = (vertical.stride * source.row, horizontal.stride * source.pixel), (given.row, given.pixel)
    g, apart = gradient + begin * given.row, horizontal.dilation * source.pixel
    for piece in range(first, first + pieces * PIECE * WORD, PIECE * WORD):
        x, shift, count = from_ + read(0, piece), read(0, piece + WORD), read(0, piece + 2 * WORD)
        tap, taps = read(0, piece + 3 * WORD), read(0, piece + 4 * WORD)
        out = sums + (down * layer.across + tap) * layer.group * layer.block
        if is_whole(like, layer):
            accumulate_whole(like, layer.vectors, x, steps, g + shift, pixels, end - begin, count, out)
        else:
            accumulate_taps(
                like, layer.group, layer.vectors, taps, x, steps, apart, g + shift, pixels, end - begin, count, out
            )


@compiled
def _ahead(vertical: Any, source: Any, given: Any, image: Any, end: Any) -> Any:
    """Addresses of what the rows from `end` on of an image see and those before do not, and of their gradient."""
    if end >= vertical.outputs:
        return source.address + (image + 1) * source.image, given.address + (image + 1) * given.image
    seen = (end - 1) * vertical.stride + vertical.start + (vertical.taps - 1) * vertical.dilation + 1
    x, g = source.address + image * source.image, given.address + image * given.image
    return x + seen * source.row, g + end * given.row


@compiled
def _prefetch(
    vertical: Any, horizontal: Any, source: Any, given: Any, seen: Any, gradient: Any, output: Any, rows: Any,
    down: Any, piece: Any,
) -> None:
    """Prefetch a part of the same pixels of the next rows, as many parts as there are rows of taps."""
    x, g, count = seen + read(0, piece), gradient + read(0, piece + WORD), read(0, piece + 2 * WORD)
    from_ = (output + rows) * vertical.stride + vertical.start + (vertical.taps - 1) * vertical.dilation
    for row in range(down, rows * vertical.stride, vertical.taps):
        there = x + (from_ - vertical.stride + 1 + row) * source.row
        for place in range(count * horizontal.stride):
            prefetch_read(there + place * source.pixel)
    for row in range(down, rows, vertical.taps):
        there = g + (output + rows + row) * given.row
        for place in range(count):
            prefetch_read(there + place * given.pixel)


@compiled
def _store(like: Any, layer: Any, w: Any, memory: Any, threads: Any) -> None:
    """Add the sums of all threads and store them as weights."""
    for thread in range(1, threads):
        for place in range(0, layer.packed, VECTOR):
            add_vector(like, memory + place, memory + thread * layer.packed + place)
    unpack(like, layer, w, layer.across, memory)
