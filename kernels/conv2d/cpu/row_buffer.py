"""Circular buffer of image rows with zero padding, for the direct convolution; each pixel lies in whole cache lines.

A row is divided by line of the channels, then by phase: pixels of a phase are those that consecutive outputs see
through one tap. So the pixels of a tile are contiguous for every tap.
"""

from typing import Any, NamedTuple

from ...cpu.compiled import compiled
from ...cpu.load_store import bytes_of
from ...cpu.packing import clear_run, copy_run
from ...cpu.simd import LINE
from .geometry import Correlation


class RowBuffer(NamedTuple):
    """Layout of the buffer, row y at y modulo `rows`: bytes from row to row, line to line, phase to phase.

    Pixels of a phase.
    """

    address: int
    rows: int
    row: int
    line: int
    phase: int
    pixels: int
    first: int  # output that would see the first pixel through a tap with offset 0


def row_buffer(address: int, work: Correlation, size: int) -> RowBuffer:
    """Layout for the rows that an output row sees, of numbers of `size` bytes."""
    vertical, horizontal = work.vertical, work.horizontal
    offsets = [(horizontal.start + tap * horizontal.dilation) // horizontal.stride for tap in range(horizontal.taps)]
    pixels = horizontal.outputs + max(offsets) - min(offsets)
    phase = pixels * LINE
    line = horizontal.stride * phase
    row = work.source.channels * size // LINE * line
    return RowBuffer(address, (vertical.taps - 1) * abs(vertical.dilation) + 1, row, line, phase, pixels, min(offsets))


def buffer_nbytes(buffer: RowBuffer) -> int:
    """Bytes of all rows."""
    return buffer.rows * buffer.row


@compiled
def tap_offset(buffer: Any, axis: Any, tap: Any) -> Any:
    """Byte offset in a row of the pixel that the first output sees through a tap, in the first line."""
    offset, phase = divmod(axis.start + tap * axis.dilation, axis.stride)
    return phase * buffer.phase + (offset - buffer.first) * LINE


@compiled
def fill_row(like: Any, work: Any, buffer: Any, image: Any, y: Any) -> None:
    """Copy a row of an image into the buffer."""
    horizontal = work.horizontal
    source = work.source.address + image * work.source.image + y * work.source.row
    for phase in range(horizontal.stride):
        if _is_seen(horizontal, phase):
            to = buffer.address + y % buffer.rows * buffer.row + phase * buffer.phase
            _fill_phase(like, work, buffer, to, source, phase)


@compiled
def _is_seen(axis: Any, phase: Any) -> Any:
    """Whether any tap sees pixels of a phase."""
    seen = False
    for tap in range(axis.taps):
        seen = seen or (axis.start + tap * axis.dilation) % axis.stride == phase
    return seen


@compiled
def _fill_phase(like: Any, work: Any, buffer: Any, target: Any, source: Any, phase: Any) -> None:
    """Store zeros, the pixels of a phase, and zeros."""
    numbers, step, whole = LINE // bytes_of(like), work.horizontal.stride, work.horizontal.size
    begin = min(max(-buffer.first, 0), buffer.pixels)
    end = max(begin, min((whole - 1 - phase) // step + 1 - buffer.first, buffer.pixels))
    apart = step * work.source.pixel
    for line in range(work.source.channels // numbers):
        to, come = target + line * buffer.line, source + phase * work.source.pixel + line * LINE
        clear_run(like, to, begin * numbers)
        for place in range(begin, end):
            copy_run(like, to + place * LINE, come + (place + buffer.first) * apart, numbers)
        clear_run(like, to + end * LINE, (buffer.pixels - end) * numbers)
