"""im2col by blocks: the pixels that taps see, gathered into slivers, with zeros for padding."""

from typing import Any, NamedTuple

from ...cpu.compiled import compiled
from ...cpu.load_store import bytes_of
from ...cpu.packing import clear_run, copy_run


class PixelBlock(NamedTuple):
    """Output pixels: `rows` rows from `row` on, counted through all images, and `width` columns from `first` on."""

    row: int
    rows: int
    first: int
    width: int


@compiled
def valid_outputs(axis: Any, tap: Any, first: Any, count: Any) -> Any:
    """Range of the outputs first, ..., first + count - 1 whose tap lies inside the source."""
    start = axis.start + tap * axis.dilation
    begin = max(first, (-start + axis.stride - 1) // axis.stride)
    end = min(first + count, (axis.size - 1 - start) // axis.stride + 1)
    return begin, max(begin, end)


@compiled
def source_row(work: Any, pixels: Any, row: Any, down: Any) -> Any:
    """Address of the source row that a tap sees from an output row; 0 outside the image."""
    image, output = divmod(pixels.row + row, work.vertical.outputs)
    place = output * work.vertical.stride + work.vertical.start + down * work.vertical.dilation
    if place < 0 or place >= work.vertical.size:
        return 0
    return work.source.address + image * work.source.image + place * work.source.row


@compiled
def gather_tap(
    like: Any, target: Any, pitch: Any, work: Any, pixels: Any, down: Any, right: Any, channel: Any, channels: Any
) -> None:
    """Gather the channels of one tap for each pixel, `pitch` bytes apart."""
    size = bytes_of(like)
    begin, end = valid_outputs(work.horizontal, right, pixels.first, pixels.width)
    column = (work.horizontal.start + right * work.horizontal.dilation) * work.source.pixel + channel * size
    for row in range(pixels.rows):
        source, to = source_row(work, pixels, row, down), target + row * pixels.width * pitch
        first, last = (begin, end) if source else (pixels.first, pixels.first)
        for place in range(pixels.first, first):
            clear_run(like, to + (place - pixels.first) * pitch, channels)
        for place in range(first, last):
            seen = source + column + place * work.horizontal.stride * work.source.pixel
            copy_run(like, to + (place - pixels.first) * pitch, seen, channels)
        for place in range(last, pixels.first + pixels.width):
            clear_run(like, to + (place - pixels.first) * pitch, channels)


@compiled
def gather_columns(
    like: Any, target: Any, width: Any, work: Any, pixels: Any, first: Any, count: Any
) -> None:
    """Gather `count` columns of the im2col matrix from `first` on into a sliver, across taps."""
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
    """Gather the columns of one pixel from `element` on, up to the end of a tap; returns their number."""
    size = bytes_of(like)
    channels = work.source.channels
    tap, offset = divmod(element, channels)
    down, right = divmod(tap, work.horizontal.taps)
    count = min(most, channels - offset)
    source = source_row(work, pixels, row, down)
    output = pixels.first + place
    column = output * work.horizontal.stride + work.horizontal.start + right * work.horizontal.dilation
    if source == 0 or column < 0 or column >= work.horizontal.size:
        clear_run(like, target, count)
    else:
        copy_run(like, target, source + column * work.source.pixel + offset * size, count)
    return count
