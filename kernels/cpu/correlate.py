"""A correlation in Numba: products of what the taps see, gathered block by block, with the weights.

Each thread has output pixels or filters of its own.
"""

from typing import Any

from numba import prange

from .block import WORD, Left, multiply_block, sliver_width
from .blocking import blocks, row_pitch, share_of, shares
from .compiled import compiled, parallel
from .gather import Pixels, folded, gather_joined, gather_tap
from .moving import bytes_of, clear, write
from .operands import Matrix, clear_run, pack_slivers
from .simd import ROWS
from .walk import Chunk, Correlation, flat
from .workspace import workspace

_pitch, _share = compiled(row_pitch), compiled(share_of)


def correlate(work: Correlation, one: Any, threads: int) -> None:
    """Fill the target of a correlation, whose numbers are like `one`."""
    sizes = blocks(one.itemsize)
    pixels = work.images * work.vertical.outputs * work.horizontal.outputs
    steps = work.vertical.taps * work.horizontal.taps * work.source.channels
    parts = shares(threads, pixels, work.target.channels, max(steps, 1), one.itemsize, False)
    memory = workspace(threads * sizes.nbytes)
    if threads == 1:
        _correlate(one, work, 0, work.images * work.vertical.outputs, 0, work.target.channels, memory, sizes)
    else:
        _correlate_on_threads(parts, one, flat(work), memory, sizes)


@parallel
def _correlate_on_threads(parts: Any, like: Any, numbers: Any, memory: Any, sizes: Any) -> None:
    work = folded(numbers)
    rows, filters = work.images * work.vertical.outputs, work.target.channels
    tall, wide = _share(rows, parts.down, 1), _share(filters, parts.across, sliver_width(like))
    for thread in prange(parts.down * parts.across):
        row, first = thread // parts.across * tall, thread % parts.across * wide
        if row < rows and first < filters:
            own = memory + thread * sizes.nbytes
            _correlate(like, folded(numbers), row, min(tall, rows - row), first, min(wide, filters - first), own, sizes)


@compiled
def _correlate(
    like: Any, work: Any, row: Any, rows: Any, first: Any, filters: Any, memory: Any, sizes: Any
) -> None:
    """Some rows of outputs, and some filters, by one thread."""
    taps, channels = work.vertical.taps * (work.horizontal.taps // work.joined), work.source.channels * work.joined
    if taps == 0:
        _clear(like, work, row, rows, first, filters)
    at_once = max(1, sizes.steps // channels)
    for filter_ in range(first, first + filters, sizes.columns):
        columns = min(sizes.columns, first + filters - filter_)
        for tap in range(0, taps, at_once):
            for channel in range(0, channels, sizes.steps):
                chunk = Chunk(tap, min(at_once, taps - tap), channel, min(sizes.steps, channels - channel))
                _pack_weights(like, memory, work, chunk, filter_, columns)
                add = tap > 0 or channel > 0
                _correlate_chunk(like, work, chunk, row, rows, filter_, columns, add, memory, sizes)


@compiled
def _correlate_chunk(
    like: Any, work: Any, chunk: Any, row: Any, rows: Any, filter_: Any, filters: Any, add: Any, memory: Any, sizes: Any
) -> None:
    """Some taps and channels, for all these rows: block by block of as many pixels as fit."""
    outputs = work.horizontal.outputs
    at_once, span = max(1, sizes.rows // outputs), min(outputs, sizes.rows)
    pitch, target = _pitch(chunk.taps * chunk.channels, bytes_of(like)), memory + sizes.left
    for here in range(row, row + rows, at_once):
        for first in range(0, outputs, span):
            pixels = Pixels(here, min(at_once, row + rows - here), first, min(span, outputs - first))
            count = pixels.rows * pixels.width
            _gather(like, target, pitch, work, chunk, pixels)
            left = Left(target, pitch, count, 0, 0, False)
            places = memory + sizes.places if _scattered(work) else 0
            c = _target(like, work, pixels, filter_, filters, places)
            steps = chunk.taps * chunk.channels
            multiply_block(like, left, memory, steps, c, places, add, memory + sizes.beside)


@compiled
def _scattered(work: Any) -> Any:
    """Whether the target's pixels are not equally far apart."""
    target = work.target
    along = work.horizontal.outputs * target.pixel
    return target.row != along or target.image != work.vertical.outputs * target.row


@compiled
def _target(like: Any, work: Any, pixels: Any, filter_: Any, filters: Any, places: Any) -> Any:
    """Where the outputs of a block belong; if they are scattered, each one's place is written to `places`."""
    size = bytes_of(like)
    target, outputs = work.target, work.horizontal.outputs
    address, count = target.address + filter_ * size, pixels.rows * pixels.width
    if places == 0:
        address += (pixels.row * outputs + pixels.first) * target.pixel
        return Matrix(address, count, filters, target.pixel, size)
    for row in range(pixels.rows):
        image, output = divmod(pixels.row + row, work.vertical.outputs)
        begin = image * target.image + output * target.row + pixels.first * target.pixel
        for place in range(pixels.width):
            write(begin + place * target.pixel, places + (row * pixels.width + place) * WORD)
    return Matrix(address, count, filters, 0, size)


@compiled
def _clear(like: Any, work: Any, row: Any, rows: Any, first: Any, filters: Any) -> None:
    """No tap reaches these outputs."""
    size = bytes_of(like)
    target = work.target
    for here in range(row, row + rows):
        image, output = divmod(here, work.vertical.outputs)
        for place in range(work.horizontal.outputs):
            to = target.address + image * target.image + output * target.row + place * target.pixel + first * size
            for filter_ in range(filters):
                clear(like, to + filter_ * size)


@compiled
def _gather(like: Any, target: Any, pitch: Any, work: Any, chunk: Any, pixels: Any) -> None:
    """What some taps of the pixels see, tap by tap; then rows of zeros up to a whole tile."""
    size = bytes_of(like)
    per_row = work.horizontal.taps // work.joined
    for tap in range(chunk.taps):
        down, right = divmod(chunk.tap + tap, per_row)
        to = target + tap * chunk.channels * size
        if work.joined > 1:
            gather_joined(like, to, pitch, work, pixels, down, chunk.channel, chunk.channels)
        else:
            gather_tap(like, to, pitch, work, pixels, down, right, chunk.channel, chunk.channels)
    count = pixels.rows * pixels.width
    for row in range(count, (count + ROWS - 1) // ROWS * ROWS):
        clear_run(like, target + row * pitch, chunk.taps * chunk.channels)


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
