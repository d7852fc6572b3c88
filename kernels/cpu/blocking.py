"""Cache blocking: block sizes from the cache sizes of the processor, and the partition of a product among threads."""

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from .simd import ROWS, VECTORS, lanes

CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
DEFAULTS = {1: 2**15, 2: 2**20, 3: 2**23}  # bytes by level, where the operating system does not report them
UNITS = {"K": 2**10, "M": 2**20}
LINE = 64
LEAST_STEPS, MOST_STEPS = 128, 512  # steps
LONG_SUM = 4  # a sum of more than this many blocks of steps is long
CONFLICTING = 2048  # rows at this distance in bytes conflict in the sets of L1


class BlockSizes(NamedTuple):
    """Sizes of the blocks that a thread packs, and the layout of its workspace: packed B first, then A, then scratch.

    steps, rows, columns: of a block (KC, MC and NC of BLIS). packed_a, scratch: byte offsets of packed A and of the
    scratch tile. nbytes: of the whole workspace.
    """

    steps: int
    rows: int
    columns: int
    packed_a: int
    scratch: int
    nbytes: int


@cache
def caches(folder: Path = CACHES) -> dict[int, int]:
    """Sizes of the data caches in bytes, by level."""
    sizes_by_level = dict(DEFAULTS)
    for index in folder.glob("index*"):
        level, kind, size = ((index / name).read_text().strip() for name in ("level", "type", "size"))
        if kind != "Instruction":
            sizes_by_level[int(level)] = int(size.rstrip("KM")) * UNITS.get(size[-1], 1)
    return sizes_by_level


@cache
def block_sizes(size: int) -> BlockSizes:
    """Block sizes for numbers of `size` bytes: slivers of B and panels of A pass through L1, a block of A stays in L2.

    Source: Goto and van de Geijn, "Anatomy of high-performance matrix multiplication", ACM TOMS 34, 2008, section 5.
    """
    width = VECTORS * lanes(size)
    return _block_sizes(min(MOST_STEPS, max(64, caches()[2] // 16 // (width * size) // 64 * 64)), size)


@cache
def block_sizes_for(size: int, rows: int, columns: int, steps: int) -> BlockSizes:
    """Block sizes for a product of this shape.

    A product with few rows and columns and a long sum reads A and B once, at the speed of memory. Its blocks have fewer
    steps, so that the current block and the prefetched next one fit into L2 together.
    """
    usual = block_sizes(size)
    fewer = min(usual.steps // 2, caches()[2] // (2 * size * max(1, rows + columns)) // 64 * 64)
    return _block_sizes(fewer, size) if fewer >= LEAST_STEPS and steps > LONG_SUM * usual.steps else usual


def _block_sizes(steps: int, size: int) -> BlockSizes:
    width = VECTORS * lanes(size)
    rows = max(1, caches()[2] // 2 // (steps * size) // ROWS) * ROWS
    return _laid_out(steps, rows, 2**23 // 2 // (steps * size) // width * width, size)


def _laid_out(steps: int, rows: int, columns: int, size: int) -> BlockSizes:
    """Block sizes with the workspace layout; each block may overflow by a row or a vector."""
    width = VECTORS * lanes(size)
    packed_a = _aligned((columns + width) * steps * size)
    scratch = packed_a + _aligned((rows + ROWS) * (row_pitch(steps, size)) + LINE)
    return BlockSizes(steps, rows, columns, packed_a, scratch, scratch + _aligned(ROWS * width * size))


def row_pitch(steps: int, size: int) -> int:
    """Bytes from a packed row to the next: whole cache lines plus one, so that rows do not conflict in the cache."""
    return (steps * size + LINE - 1) // LINE * LINE + LINE


def _aligned(nbytes: int) -> int:
    return -(-nbytes // LINE) * LINE


class Partition(NamedTuple):
    """Numbers of parts of rows, columns and steps; parts of the steps (split-K) are reduced at the end."""

    rows: int
    columns: int
    steps: int


@cache
def partition(threads: int, rows: int, columns: int, steps: int, size: int, split_k: bool = True) -> Partition:
    """Partition with the smallest work of the busiest thread, in multiplications; `split_k`: steps may be divided."""
    width = VECTORS * lanes(size)

    def cost(parts: Partition) -> float:
        part_rows, part_columns = largest_part(rows, parts.rows, ROWS), largest_part(columns, parts.columns, width)
        part_steps = largest_part(steps, parts.steps, 1)
        reduction = REDUCTION_COST * rows * columns * (parts.steps > 1) * parts.steps / threads
        return part_steps * (part_rows * part_columns + PACKING_COST * (part_rows + part_columns)) + reduction

    return min((parts for parts in _partitions(threads) if split_k or parts.steps == 1), key=cost)


PACKING_COST, REDUCTION_COST = 4, 4  # cost of packing a number and of adding a partial sum, in multiplications


def _partitions(threads: int) -> Iterator[Partition]:
    for row_parts in range(1, threads + 1):
        for column_parts in range(1, threads // row_parts + 1):
            all_threads = threads // (row_parts * column_parts)
            yield from (Partition(row_parts, column_parts, step_parts) for step_parts in {1, all_threads})


def largest_part(count: int, parts: int, unit: int) -> int:
    """Size of the largest of `parts` parts of `count`, cut at multiples of `unit`."""
    return ((count + unit - 1) // unit + parts - 1) // parts * unit
