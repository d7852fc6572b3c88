"""Sizes of blocks, by the caches that a processor has, and the parts that threads share a product out in."""

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from .simd import ROWS, VECTORS, lanes

CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
USUAL = {1: 2**15, 2: 2**20, 3: 2**23}  # bytes by level, where the kernel does not tell
UNITS = {"K": 2**10, "M": 2**20}
LINE = 64
LEAST, MOST = 128, 512  # steps
LONG = 4  # times as many steps
CROWDED = 2048  # rows so many bytes apart meet in few lines of the first cache


class Blocks(NamedTuple):
    """Steps, rows of A and columns of B that a thread packs at a time, and where it does: B comes first.

    left: bytes to the packed A; beside: to room for a tile; nbytes: of all.
    """

    steps: int
    rows: int
    columns: int
    left: int
    beside: int
    nbytes: int


@cache
def caches(folder: Path = CACHES) -> dict[int, int]:
    """Bytes of a processor's data caches by level."""
    found = dict(USUAL)
    for index in folder.glob("index*"):
        level, kind, size = ((index / name).read_text().strip() for name in ("level", "type", "size"))
        if kind != "Instruction":
            found[int(level)] = int(size.rstrip("KM")) * UNITS.get(size[-1], 1)
    return found


@cache
def blocks(size: int) -> Blocks:
    """For numbers of `size` bytes: slivers of B and panels of A pass the first cache, a block of A stays in the second.

    After Goto and van de Geijn, "Anatomy of high-performance matrix multiplication", ACM TOMS 34, 2008, section 5.
    """
    width = VECTORS * lanes(size)
    return _blocks(min(MOST, max(64, caches()[2] // 16 // (width * size) // 64 * 64)), size)


@cache
def blocks_of(size: int, rows: int, columns: int, steps: int) -> Blocks:
    """The same for so large a product. Where sums are few and long, all is read once, as fast as memory gives it: then
    what is being multiplied, and the steps after it, which are fetched meanwhile, stay in the second cache together.
    """
    usual = blocks(size)
    few = min(usual.steps // 2, caches()[2] // (2 * size * max(1, rows + columns)) // 64 * 64)
    return _blocks(few, size) if few >= LEAST and steps > LONG * usual.steps else usual


def _blocks(steps: int, size: int) -> Blocks:
    width = VECTORS * lanes(size)
    rows = max(1, caches()[2] // 2 // (steps * size) // ROWS) * ROWS
    return arranged(steps, rows, 2**23 // 2 // (steps * size) // width * width, size)


def arranged(steps: int, rows: int, columns: int, size: int) -> Blocks:
    """Where a thread packs blocks of that many steps, rows and columns; each may overflow by a row or a vector."""
    width = VECTORS * lanes(size)
    left = _aligned((columns + width) * steps * size)
    beside = left + _aligned((rows + ROWS) * (row_pitch(steps, size)) + LINE)
    return Blocks(steps, rows, columns, left, beside, beside + _aligned(ROWS * width * size))


def row_pitch(steps: int, size: int) -> int:
    """Bytes from a packed row to the next: whole lines, and one more, so that rows do not meet in the cache."""
    return (steps * size + LINE - 1) // LINE * LINE + LINE


def _aligned(nbytes: int) -> int:
    return -(-nbytes // LINE) * LINE


class Shares(NamedTuple):
    """Into how many parts threads share rows, columns and steps out; parts of steps are summed at the end."""

    down: int
    across: int
    deep: int


@cache
def shares(threads: int, rows: int, columns: int, steps: int, size: int, deep: bool = True) -> Shares:
    """The shares by which the thread that has most has least to do, in multiplications; steps are shared if `deep`."""
    width = VECTORS * lanes(size)

    def cost(parts: Shares) -> float:
        tall, wide = share_of(rows, parts.down, ROWS), share_of(columns, parts.across, width)
        inner = share_of(steps, parts.deep, 1)
        summed = SUMMED * rows * columns * (parts.deep > 1) * parts.deep / threads
        return inner * (tall * wide + PACKED * (tall + wide)) + summed

    return min((parts for parts in _divisions(threads) if deep or parts.deep == 1), key=cost)


PACKED, SUMMED = 4, 4  # what it costs to pack a number, and to add a partial sum, in multiplications


def _divisions(threads: int) -> Iterator[Shares]:
    for down in range(1, threads + 1):
        for across in range(1, threads // down + 1):
            yield from (Shares(down, across, deep) for deep in {1, threads // (down * across)})


def share_of(count: int, parts: int, unit: int) -> int:
    """The largest part of `count` that is cut at multiples of `unit`."""
    return ((count + unit - 1) // unit + parts - 1) // parts * unit
