"""What the taps of output pixels see, brought together for a tile; where they see nothing, zeros."""

from typing import Any, NamedTuple

from ...cpu.compiled import compiled
from ...cpu.load_store import bytes_of
from ...cpu.packing import clear_run, copy_run


class Pixels(NamedTuple):
    """Output pixels: `rows` rows from `row` on, counted through all images, of each `width` from `first` on."""

    row: int
    rows: int
    first: int
    width: int


@compiled
def inside(axis: Any, tap: Any, first: Any, count: Any) -> Any:
    """Of the outputs first, ... those whose tap lies inside: from which on, and up to which."""
    start = axis.start + tap * axis.apart
    begin = max(first, (-start + axis.step - 1) // axis.step)
    end = min(first + count, (axis.size - 1 - start) // axis.step + 1)
    return begin, max(begin, end)


@compiled
def source_row(work: Any, pixels: Any, row: Any, down: Any) -> Any:
    """Address of the source row that a tap sees from a row of outputs; 0 outside."""
    image, output = divmod(pixels.row + row, work.vertical.outputs)
    place = output * work.vertical.step + work.vertical.start + down * work.vertical.apart
    if place < 0 or place >= work.vertical.size:
        return 0
    return work.source.address + image * work.source.image + place * work.source.row


@compiled
def gather_tap(
    like: Any, target: Any, pitch: Any, work: Any, pixels: Any, down: Any, right: Any, channel: Any, channels: Any
) -> None:
    """One tap's channels of each pixel, `pitch` bytes apart."""
    size = bytes_of(like)
    begin, end = inside(work.horizontal, right, pixels.first, pixels.width)
    column = (work.horizontal.start + right * work.horizontal.apart) * work.source.pixel + channel * size
    for row in range(pixels.rows):
        source, to = source_row(work, pixels, row, down), target + row * pixels.width * pitch
        first, last = (begin, end) if source else (pixels.first, pixels.first)
        for place in range(pixels.first, first):
            clear_run(like, to + (place - pixels.first) * pitch, channels)
        for place in range(first, last):
            seen = source + column + place * work.horizontal.step * work.source.pixel
            copy_run(like, to + (place - pixels.first) * pitch, seen, channels)
        for place in range(last, pixels.first + pixels.width):
            clear_run(like, to + (place - pixels.first) * pitch, channels)


@compiled
def gather_pieces(
    like: Any, target: Any, width: Any, work: Any, pixels: Any, first: Any, count: Any
) -> None:
    """A sliver of each pixel's numbers: `count` of all that its taps see, from `first` on, wherever taps end."""
    size = bytes_of(like)
    for row in range(pixels.rows):
        for place in range(pixels.width):
            to, element = target + (row * pixels.width + place) * width * size, first
            while element < first + count:
                here = to + (element - first) * size
                element += _gather_piece(like, here, work, pixels, row, place, element, first + count - element)
            if count < width:
                clear_run(like, to + count * size, width - count)


@compiled
def _gather_piece(
    like: Any, target: Any, work: Any, pixels: Any, row: Any, place: Any, element: Any, most: Any
) -> Any:
    """Numbers of one pixel from `element` on, up to the end of a tap; how many."""
    size = bytes_of(like)
    channels = work.source.channels
    tap, offset = divmod(element, channels)
    down, right = divmod(tap, work.horizontal.taps)
    count = min(most, channels - offset)
    source = source_row(work, pixels, row, down)
    output = pixels.first + place
    column = output * work.horizontal.step + work.horizontal.start + right * work.horizontal.apart
    if source == 0 or column < 0 or column >= work.horizontal.size:
        clear_run(like, target, count)
    else:
        copy_run(like, target, source + column * work.source.pixel + offset * size, count)
    return count
