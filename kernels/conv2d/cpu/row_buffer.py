"""Rows of a picture, copied with zeros around them as long as taps see them: each pixel in lines of the cache.

A row has a part for each line of a pixel's channels, and of these one for each phase of the pixels, which are those
that the outputs, one after the other, see by the same tap: so tiles find what any tap sees side by side.
"""

from typing import Any, NamedTuple

from ...cpu.compiled import compiled
from ...cpu.load_store import bytes_of
from ...cpu.packing import clear_run, copy_run
from ...cpu.simd import LINE
from .geometry import Correlation


class Ring(NamedTuple):
    """Where rows lie: row y in place y modulo `rows`. Bytes to the next row, line and phase; the pixels of a phase."""

    address: int
    rows: int
    row: int
    line: int
    phase: int
    pixels: int
    first: int  # output that would see the first of them by a tap with no offset


def ring_of(address: int, work: Correlation, size: int) -> Ring:
    """For what a row of outputs sees, of numbers of `size` bytes; see `nbytes_of`."""
    vertical, horizontal = work.vertical, work.horizontal
    offsets = [(horizontal.start + tap * horizontal.apart) // horizontal.step for tap in range(horizontal.taps)]
    pixels = horizontal.outputs + max(offsets) - min(offsets)
    phase = pixels * LINE
    line = horizontal.step * phase
    row = work.source.channels * size // LINE * line
    return Ring(address, (vertical.taps - 1) * abs(vertical.apart) + 1, row, line, phase, pixels, min(offsets))


def nbytes_of(ring: Ring) -> int:
    """Bytes of all rows."""
    return ring.rows * ring.row


@compiled
def place_of(ring: Any, axis: Any, tap: Any) -> Any:
    """Bytes in a row to what the first output sees by a tap, in its first line."""
    offset, phase = divmod(axis.start + tap * axis.apart, axis.step)
    return phase * ring.phase + (offset - ring.first) * LINE


@compiled
def fill_row(like: Any, work: Any, ring: Any, image: Any, y: Any) -> None:
    """Copy a row of a picture."""
    horizontal = work.horizontal
    source = work.source.address + image * work.source.image + y * work.source.row
    for phase in range(horizontal.step):
        if _is_seen(horizontal, phase):
            to = ring.address + y % ring.rows * ring.row + phase * ring.phase
            _fill_phase(like, work, ring, to, source, phase)


@compiled
def _is_seen(axis: Any, phase: Any) -> Any:
    """Whether any tap sees pixels of a phase."""
    seen = False
    for tap in range(axis.taps):
        seen = seen or (axis.start + tap * axis.apart) % axis.step == phase
    return seen


@compiled
def _fill_phase(like: Any, work: Any, ring: Any, target: Any, source: Any, phase: Any) -> None:
    """Zeros, the pixels of a phase, and zeros."""
    numbers, step, whole = LINE // bytes_of(like), work.horizontal.step, work.horizontal.size
    begin = min(max(-ring.first, 0), ring.pixels)
    end = max(begin, min((whole - 1 - phase) // step + 1 - ring.first, ring.pixels))
    apart = step * work.source.pixel
    for line in range(work.source.channels // numbers):
        to, come = target + line * ring.line, source + phase * work.source.pixel + line * LINE
        clear_run(like, to, begin * numbers)
        for place in range(begin, end):
            copy_run(like, to + place * LINE, come + (place + ring.first) * apart, numbers)
        clear_run(like, to + end * LINE, (ring.pixels - end) * numbers)
