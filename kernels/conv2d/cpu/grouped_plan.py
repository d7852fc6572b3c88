"""Plan of a convolution in groups that divide or fill vectors: which pixels see which taps, as tables.

Runs of pixels are divided into tiles, so padding costs no operation and no copy; depth-wise layers have tiles of any
neighbouring pixels, which read zeros for the padding.
"""

from collections.abc import Iterator, Sequence
from itertools import product
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np

from ...cpu.blocking import caches
from ...cpu.compiled import compiled
from ...cpu.load_store import bytes_of, read
from ...cpu.microkernel import WORD
from ...cpu.packing import LINE as VECTOR
from ...cpu.simd import HOST
from .. import Shape
from .depthwise_microkernel import HEIGHTS, KINDS, kind_of
from .geometry import ArrayLayout, ImageLayout, Phase, forward_axis, gradient_phases, images
from .grouped_microkernel import GROUPS, heights
from .runs import Run, has_rows, runs, tiles, tiles_by_rows
from .whole_group_microkernel import HEIGHTS as WHOLE_HEIGHTS
from .whole_group_microkernel import VECTORS as WHOLE


class Layer(NamedTuple):
    """What all rows of a direction have in common: numbers, and byte distances.

    group: channels of a group. vectors: of a block of channels, `block` bytes. nbytes: of all channels. taps: of a
    filter. rows: of outputs of an image, in the phase that has most. phases: entries of the table. source, target: from
    image to image. strip: rows of outputs that are computed block by block, `together` blocks at a time. by_rows:
    whether each tile is computed row by row of taps (depthwise_microkernel.py).
    """

    group: int
    vectors: int
    block: int
    nbytes: int
    taps: int
    images: int
    rows: int
    phases: int
    source_image: int
    target_image: int
    strip: int
    together: int
    by_rows: int


class Rows(NamedTuple):
    """Output rows of a phase, as the table holds them: an axis, byte distances, and addresses of tiles and entries.

    apart: from what a pixel sees to what the next one sees. kind: of depthwise_microkernel. tap, tap_down, tap_right:
    number of the first tap among all, and to the next ones.
    """

    outputs: int
    taps: int
    stride: int
    start: int
    dilation: int
    size: int
    source_row: int
    apart: int
    right_stride: int
    target: int
    target_row: int
    target_pixel: int
    tiles: int
    number: int
    kind: int
    tap: int
    tap_down: int
    tap_right: int


ROWS, TILE = len(Rows._fields), 5  # 64-bit words
TOGETHER = 16  # vectors of channels computed one after the other in a tile, at most


def applies(shape: Shape, size: int) -> bool:
    """Whether groups have as many filters as channels, which divide a vector or fill one or two; none is half empty."""
    lanes, group = HOST.nbytes // size, shape.channels // shape.groups
    alike = shape.channels == shape.filters and shape.groups > 1
    divides = group in GROUPS and lanes % group == 0
    return alike and shape.channels >= lanes and (divides or group in (lanes * vectors for vectors in WHOLE))


def vectors_of(channels: int, group: int, size: int) -> int:
    """Vectors of channels of a tile: those of a group, or one; two for depth-wise layers that have them."""
    if group == 1:
        return 2 if channels * size >= 2 * HOST.nbytes else 1
    return max(1, group * size // HOST.nbytes)


def fills_vectors(group: int, size: int) -> bool:
    """Whether so many channels of a group, of `size` bytes each, fill vectors."""
    return group * size >= VECTOR


_fills_vectors = compiled(fills_vectors)


@compiled
def is_whole(like: Any, layer: Any) -> Any:
    """Whether the groups of a layer fill vectors."""
    return _fills_vectors(layer.group, bytes_of(like))


class Plan(NamedTuple):
    """A layer and its table: `Rows` of each phase, then tiles and entries."""

    layer: Layer
    table: Any


class _Direction(NamedTuple):
    """Source, target and phases of a direction; in the target, outputs of a phase are `steps` pixels apart."""

    source: ImageLayout
    target: ImageLayout
    phases: list[tuple[Phase, Phase]]
    steps: tuple[int, int]


def forward_plan(x: ArrayLayout, y: ArrayLayout, shape: Shape) -> Plan:
    """Plan of the forward pass, of arrays without address."""
    down, right = (Phase(0, 0, 1, forward_axis(shape, axis)) for axis in (0, 1))
    return _plan(_Direction(images(x, 0, 1), images(y, 0, 1), [(down, right)], (1, 1)), shape, x.itemsize)


def input_gradient_plan(y: ArrayLayout, x: ArrayLayout, shape: Shape) -> Plan:
    """Plan of the input gradient."""
    phases = [*product(gradient_phases(shape, 0), gradient_phases(shape, 1))]
    return _plan(_Direction(images(y, 0, 1), images(x, 0, 1), phases, shape.stride), shape, y.itemsize)


def _plan(direction: _Direction, shape: Shape, size: int) -> Plan:
    group, (source, target, phases, _) = shape.channels // shape.groups, direction
    by_rows = group == 1 and all(map(_is_by_rows, phases))
    vectors = 1 if by_rows else vectors_of(shape.channels, group, size)
    layer = Layer(
        group, vectors, vectors * HOST.nbytes, shape.channels * size, shape.kernel[0] * shape.kernel[1], shape.batch,
        max(down.axis.outputs for down, _ in phases), len(phases), source.image, target.image,
        *_blocking(direction, vectors), int(by_rows),
    )
    table = [0] * (len(phases) * ROWS)
    for place, (down, right) in enumerate(phases):
        allowed = WHOLE_HEIGHTS if fills_vectors(group, size) else heights(vectors, group)
        given = (table, direction, down, right, shape, allowed)
        at, number = _tiles_by_rows(table, direction, right) if by_rows else _tiles(*given)
        table[place * ROWS : (place + 1) * ROWS] = _rows(direction, down, right, shape, at, number)
    return Plan(layer, np.array(table, np.int64))


def _is_by_rows(phase: tuple[Phase, Phase]) -> bool:
    return has_rows(phase[1].axis, KINDS)


def _blocking(direction: _Direction, vectors: int) -> tuple[int, int]:
    """Rows of outputs that are computed block by block, and blocks that are computed together in each.

    Images that stay in L2 are read by as many blocks at a time as fit L1, others by many, which reads longer runs.
    """
    l1, l2, source, most = caches()[1], caches()[2], direction.source, TOGETHER // vectors
    if source.image > l2 // 2:
        return 1, most
    down = max((down.axis for down, _ in direction.phases), key=attrgetter("taps"))
    rows = l2 // 4 // (down.stride * source.row + direction.target.row)
    return max(1, rows), max(1, min(most, l1 // (down.taps * source.row // source.pixel * vectors * HOST.nbytes)))


def _tiles(
    table: list[int], direction: _Direction, down: Phase, right: Phase, shape: Shape, allowed: Sequence[int]
) -> tuple[int, int]:
    """Append the tiles and entries of a phase; the address of the tiles, and their number."""
    (source, target, _, steps), axis = direction, right.axis
    found, pixel = [], steps[1] * target.pixel
    for run in runs(axis):
        entries = len(table) * WORD
        table += _entries(source, down, right, run, shape.kernel[1])
        for first, height in tiles(run, allowed):
            seen = (first * axis.stride + axis.start) * source.pixel
            found += [seen, first * pixel, height, entries, run.taps]
    at = len(table) * WORD
    table += found
    return at, len(found) // TILE


def _tiles_by_rows(table: list[int], direction: _Direction, right: Phase) -> tuple[int, int]:
    """The same for tiles of any neighbouring outputs: the last words are the pixels of the source that are inside."""
    (source, target, _, steps), axis, at = direction, right.axis, len(table) * WORD
    every = [*tiles_by_rows(axis, HEIGHTS)]
    for first, height, low, high in every:
        seen = (first * axis.stride + axis.start) * source.pixel
        table += [seen, first * steps[1] * target.pixel, height, low, high]
    return at, len(every)


def _rows(direction: _Direction, down: Phase, right: Phase, shape: Shape, at: int, number: int) -> Rows:
    """The rows of a phase, whose tiles are at an address of the table."""
    (source, target, _, steps), axis, across = direction, right.axis, shape.kernel[1]
    to = target.address + down.phase * target.row + right.phase * target.pixel
    outputs, taps, stride, start, dilation, size = down.axis
    known = (axis.taps, axis.stride) in KINDS
    return Rows(
        outputs, taps, stride, start, dilation, size, source.row, axis.stride * source.pixel, axis.stride,
        to, steps[0] * target.row, steps[1] * target.pixel, at, number,
        kind_of(axis.taps, axis.stride) if known else 0, down.first * across + right.first, down.every * across,
        right.every,
    )  # fmt: skip


def _entries(source: ImageLayout, down: Phase, right: Phase, run: Run, across: int) -> Iterator[int]:
    """What the first pixel of a tile sees through each tap, and the number of the tap among all; row by row of taps."""
    for row in range(down.axis.taps):
        for tap in range(run.first_tap, run.first_tap + run.taps):
            yield row * down.axis.dilation * source.row + tap * right.axis.dilation * source.pixel
            yield (down.first + row * down.every) * across + right.first + tap * right.every


@compiled
def rows_of(table: Any, phase: Any) -> Rows:
    """The rows of a phase."""
    at = table + phase * ROWS * WORD
    return Rows(
        read(0, at), read(0, at + WORD), read(0, at + 2 * WORD), read(0, at + 3 * WORD), read(0, at + 4 * WORD),
        read(0, at + 5 * WORD), read(0, at + 6 * WORD), read(0, at + 7 * WORD), read(0, at + 8 * WORD),
        read(0, at + 9 * WORD), read(0, at + 10 * WORD), read(0, at + 11 * WORD), read(0, at + 12 * WORD),
        read(0, at + 13 * WORD), read(0, at + 14 * WORD), read(0, at + 15 * WORD), read(0, at + 16 * WORD),
        read(0, at + 17 * WORD),
    )  # fmt: skip


@compiled
def taps_inside(rows: Any, output: Any) -> Any:
    """The first row of taps that lies inside the image for a row of outputs, and how many do."""
    begin = output * rows.stride + rows.start
    first = max(0, (rows.dilation - 1 - begin) // rows.dilation)
    last = min(rows.taps, (rows.size - 1 - begin) // rows.dilation + 1)
    return first, max(0, last - first)
