"""The product of packed operands: all tiles of a block, whole ones in place, others by way of a tile beside."""

from typing import Any, NamedTuple

from .compiled import compiled
from .load_store import bytes_of
from .microkernel import made, multiply_panel, multiply_rows
from .packing import LINE, merge, part
from .simd import ROWS, VECTORS

FETCHED = 64  # bytes ahead that a step fetches


class Left(NamedTuple):
    """Rows of A as tiles take them: bytes from one to the next; from row `whole` on they lie at `rest`, packed.

    In panels, a row's bytes are its share of them.
    """

    address: int
    pitch: int
    whole: int
    rest: int
    rest_pitch: int
    in_panels: bool


@compiled
def sliver_width(like: Any) -> Any:
    """Columns of a tile of numbers like this."""
    return VECTORS * LINE // bytes_of(like)


class Prefetcher(NamedTuple):
    """Memory that will be wanted next: two addresses, and how many bytes from each on."""

    first: int
    first_nbytes: int
    second: int
    second_nbytes: int


NOTHING = Prefetcher(0, 0, 0, 0)


@compiled
def next_of(ahead: Any, fetched: Any) -> Any:
    """Where to go on after so many bytes; 0 at the end."""
    if fetched < ahead.first_nbytes:
        return ahead.first + fetched
    if fetched - ahead.first_nbytes < ahead.second_nbytes:
        return ahead.second + fetched - ahead.first_nbytes
    return 0


@compiled
def multiply_block(
    alpha: Any, left: Any, slivers: Any, steps: Any, c: Any, add: Any, beside: Any, ahead: Any
) -> None:
    """C = alpha A B, or + C, for a block of C; `beside` is room for a tile. What is `ahead` is fetched meanwhile."""
    size = bytes_of(alpha)
    width = sliver_width(alpha)
    fetched = 0
    for column in range(0, c.columns, width):
        sliver = slivers + column * steps * size
        for row in range(0, c.rows, ROWS):
            a, pitch = left.address + row * left.pitch, left.pitch
            if row >= left.whole:
                a, pitch = left.rest, left.rest_pitch
            tile = part(c, row, column, ROWS, width)
            whole = tile.rows == made(tile.rows) and tile.columns == width and c.right == size
            target, down = (tile.address, tile.down) if whole else (beside, width * size)
            near = next_of(ahead, fetched)
            fetched += steps * FETCHED * (tile.rows == ROWS)
            if left.in_panels:
                multiply_panel(alpha, steps, a, sliver, target, down, add and whole, tile.rows, near)
            else:
                multiply_rows(alpha, steps, a, pitch, sliver, target, down, add and whole, tile.rows, near)
            if not whole:
                merge(alpha, beside, width, tile, add)
