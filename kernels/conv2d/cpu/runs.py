"""Neighbouring outputs of an axis: runs that see the same taps, and tiles that are computed at once."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from .geometry import Axis

TILE_COST = 2  # of a tile, in pixels


class Run(NamedTuple):
    """Neighbouring outputs of an axis that see the taps first_tap, ..., first_tap + taps - 1."""

    first: int
    outputs: int
    first_tap: int
    taps: int


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


def has_rows(axis: Axis, kinds: Sequence[tuple[int, int]]) -> bool:
    """Whether an axis has one of these numbers of taps and strides, neighbouring taps, and each output sees some."""
    return axis.dilation == 1 and (axis.taps, axis.stride) in kinds and all(run.taps for run in runs(axis))


def tiles_by_rows(axis: Axis, heights: Sequence[int]) -> Iterator[tuple[int, int, int, int]]:
    """Tiles of any neighbouring outputs: first output and height, and what is inside of what they see.

    That is from the first number on, counted from what the first output sees through the first tap, up to before the
    second.
    """
    for first, height in tiles(Run(0, axis.outputs, 0, axis.taps), heights):
        seen = first * axis.stride + axis.start
        yield first, height, max(0, -seen), axis.size - seen
