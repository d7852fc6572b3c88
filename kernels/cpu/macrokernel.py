"""Macro-kernel of the matrix product: all micro-kernel tiles of a block of C, from packed A and B.

Whole tiles are written in place. Tiles at the border are computed in a scratch tile and copied.
"""

from typing import Any, NamedTuple

from .compiled import compiled
from .load_store import bytes_of
from .microkernel import multiply_panel, multiply_rows, rows_computed
from .packing import LINE, store_tile, submatrix
from .simd import ROWS, VECTORS

PREFETCHED = 64  # bytes that one step prefetches


class PackedA(NamedTuple):
    """Rows of A as the micro-kernel reads them.

    Rows `pitch` bytes apart start at `address`. Rows from `in_place` on are packed copies at `remainder`,
    `remainder_pitch` bytes apart. With `in_panels`, A lies in panels, and `pitch` is a row's share of the bytes of its
    panel.
    """

    address: int
    pitch: int
    in_place: int
    remainder: int
    remainder_pitch: int
    in_panels: bool


@compiled
def sliver_width(like: Any) -> Any:
    """Columns of a micro-kernel tile, for numbers of the type of `like`."""
    return VECTORS * LINE // bytes_of(like)


class Prefetch(NamedTuple):
    """Memory to prefetch during a macro-kernel: two ranges of bytes."""

    first: int
    first_nbytes: int
    second: int
    second_nbytes: int


NO_PREFETCH = Prefetch(0, 0, 0, 0)


@compiled
def next_prefetch(prefetch: Any, prefetched: Any) -> Any:
    """Address to prefetch next after `prefetched` bytes; 0 when both ranges are done."""
    if prefetched < prefetch.first_nbytes:
        return prefetch.first + prefetched
    if prefetched - prefetch.first_nbytes < prefetch.second_nbytes:
        return prefetch.second + prefetched - prefetch.first_nbytes
    return 0


@compiled
def multiply_block(
    alpha: Any, packed_a: Any, slivers: Any, steps: Any, c: Any, add: Any, scratch: Any, prefetch: Any
) -> None:
    """Compute C = alpha A B, or C += alpha A B, for a block of C.

    `slivers`: packed B. `scratch`: memory for one tile. Each step prefetches one line of `prefetch`.
    """
    size = bytes_of(alpha)
    width = sliver_width(alpha)
    prefetched = 0
    for column in range(0, c.columns, width):
        sliver = slivers + column * steps * size
        for row in range(0, c.rows, ROWS):
            a, pitch = packed_a.address + row * packed_a.pitch, packed_a.pitch
            if row >= packed_a.in_place:
                a, pitch = packed_a.remainder, packed_a.remainder_pitch
            tile = submatrix(c, row, column, ROWS, width)
            whole = tile.rows == rows_computed(tile.rows) and tile.columns == width and c.column_stride == size
            target, row_stride = (tile.address, tile.row_stride) if whole else (scratch, width * size)
            prefetch_at = next_prefetch(prefetch, prefetched)
            prefetched += steps * PREFETCHED * (tile.rows == ROWS)
            if packed_a.in_panels:
                multiply_panel(alpha, steps, a, sliver, target, row_stride, add and whole, tile.rows, prefetch_at)
            else:
                multiply_rows(alpha, steps, a, pitch, sliver, target, row_stride, add and whole, tile.rows, prefetch_at)
            if not whole:
                store_tile(alpha, scratch, width, tile, add)
