"""Plan of a convolution in groups that divide or fill vectors: which pixels see which taps, as tables.

Neighbouring pixels of a row that see the same taps, those that do not lie in the padding, form a run, and runs are
divided into tiles. So padding costs no operation and no copy.
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
from .geometry import ArrayLayout, Axis, ImageLayout, Phase, forward_axis, gradient_phases, images
from .grouped_microkernel import GROUPS, heights
from .whole_group_microkernel import HEIGHTS as WHOLE_HEIGHTS
from .whole_group_microkernel import VECTORS as WHOLE


class Run(NamedTuple):
    """Neighbouring outputs of an axis that see the taps first_tap, ..., first_tap + taps - 1."""

    first: int
    outputs: int
    first_tap: int
    taps: int


class Layer(NamedTuple):
    """What all rows of a direction have in common: numbers, and byte distances.

    group: channels of a group. vectors: of a block of channels, `block` bytes. nbytes: of all channels. taps: of a
    filter. rows: of outputs of an image, in the phase that has most. phases: entries of the table. source, target: from
    image to image. strip: rows of outputs that are computed block by block, `together` blocks at a time.
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


class Rows(NamedTuple):
    """Output rows of a phase, as the table holds them: an axis, byte distances, and addresses of tiles and entries.

    apart: from what a pixel sees to what the next one sees.
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


ROWS, TILE = len(Rows._fields), 5  # 64-bit words
TILE_COST = 2  # of a tile, in pixels
TOGETHER = 8  # blocks of channels computed one after the other in a tile, at most


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


def runs(axis: Axis) -> Iterator[Run]:
    """The runs of an axis, in order."""
    first, seen = 0, _seen(axis, 0)
    for output in range(1, axis.outputs + 1):
        following = _seen(axis, output) if output < axis.outputs else None
        if following != seen:
            yield Run(first, output - first, *seen)
            first, seen = output, following or (0, 0)


def _seen(axis: Axis, output: int) -> tuple[int, int]:
    places = (output * axis.stride + axis.start + tap * axis.dilation for tap in range(axis.taps))
    taps = [tap for tap, place in enumerate(places) if 0 <= place < axis.size]
    return (taps[0], len(taps)) if taps else (0, 0)


def tiles(run: Run, allowed: Sequence[int]) -> Iterator[tuple[int, int]]:
    """First outputs and heights of the tiles of a run; where no heights add up to it, tiles overlap."""
    fit = [height for height in allowed if height <= run.outputs]
    number = min((-(-run.outputs // height) * (height + TILE_COST), -(-run.outputs // height)) for height in fit)[1]
    done, last = 0, run.first + run.outputs
    for left in range(number, 0, -1):
        height = min(height for height in fit if height * left >= run.outputs - done)
        yield min(run.first + done, last - height), height
        done += height


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
    vectors, rows = vectors_of(shape.channels, group, size), max(down.axis.outputs for down, _ in phases)
    layer = Layer(
        group, vectors, vectors * HOST.nbytes, shape.channels * size, shape.kernel[0] * shape.kernel[1], shape.batch,
        rows, len(phases), source.image, target.image, *_blocking(direction, vectors * HOST.nbytes),
    )
    allowed = WHOLE_HEIGHTS if fills_vectors(group, size) else heights(vectors, group)
    table = [0] * (len(phases) * ROWS)
    for place, (down, right) in enumerate(phases):
        table[place * ROWS : (place + 1) * ROWS] = _rows(table, direction, down, right, shape, allowed)
    return Plan(layer, np.array(table, np.int64))


def _blocking(direction: _Direction, block: int) -> tuple[int, int]:
    """Rows of outputs that are computed block by block, and blocks that are computed together in each.

    Images that stay in L2 are read by as many blocks at a time as fit L1, others by many, which reads longer runs.
    """
    l1, l2, source = caches()[1], caches()[2], direction.source
    if source.image > l2 // 2:
        return 1, TOGETHER
    down = max((down.axis for down, _ in direction.phases), key=attrgetter("taps"))
    rows = l2 // 4 // (down.stride * source.row + direction.target.row)
    return max(1, rows), max(1, min(TOGETHER, l1 // (down.taps * source.row // source.pixel * block)))


def _rows(
    table: list[int], direction: _Direction, down: Phase, right: Phase, shape: Shape, allowed: Sequence[int]
) -> Rows:
    """The rows of a phase; their tiles and entries are appended to the table."""
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
    to = target.address + down.phase * target.row + right.phase * target.pixel
    outputs, taps, stride, start, dilation, size = down.axis
    return Rows(
        outputs, taps, stride, start, dilation, size, source.row, axis.stride * source.pixel, axis.stride,
        to, steps[0] * target.row, pixel, at, len(found) // TILE,
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
        read(0, at + 13 * WORD),
    )  # fmt: skip


@compiled
def taps_inside(rows: Any, output: Any) -> Any:
    """The first row of taps that lies inside the image for a row of outputs, and how many do."""
    begin = output * rows.stride + rows.start
    first = max(0, (rows.dilation - 1 - begin) // rows.dilation)
    last = min(rows.taps, (rows.size - 1 - begin) // rows.dilation + 1)
    return first, max(0, last - first)
