"""The product of packed operands: all tiles of a block, whole ones in place, others by way of a tile beside."""

from typing import Any, NamedTuple

from .compiled import compiled
from .moving import bytes_of, read
from .operands import LINE, Matrix, merge, part
from .simd import ROWS, VECTORS
from .tile import multiply_panel, multiply_rows

WORD = 8  # bytes of a place


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


@compiled
def multiply_block(
    alpha: Any, left: Any, slivers: Any, steps: Any, c: Any, places: Any, add: Any, beside: Any
) -> None:
    """C = alpha A B, or + C, for a block of C; `beside` is room for a tile.

    places: where the bytes from C's address to each of its rows are, if they are not equally far apart; else 0.
    """
    size = bytes_of(alpha)
    width = sliver_width(alpha)
    for column in range(0, c.columns, width):
        sliver = slivers + column * steps * size
        for row in range(0, c.rows, ROWS):
            a, pitch = left.address + row * left.pitch, left.pitch
            if row >= left.whole:
                a, pitch = left.rest, left.rest_pitch
            tile = part(c, row, column, ROWS, width)
            whole = tile.rows == ROWS and tile.columns == width and c.right == size and places == 0
            target, down = (tile.address, tile.down) if whole else (beside, width * size)
            if left.in_panels:
                multiply_panel(alpha, steps, a, sliver, target, down, add and whole)
            else:
                multiply_rows(alpha, steps, a, pitch, sliver, target, down, add and whole)
            if not whole:
                _place(alpha, beside, width, tile, places + row * WORD if places else 0, add)


@compiled
def _place(like: Any, beside: Any, width: Any, tile: Any, places: Any, add: Any) -> None:
    """Bring a tile to where it belongs, row by row where these lie anywhere."""
    size = bytes_of(like)
    if places == 0:
        merge(like, beside, width, tile, add)
        return
    for row in range(tile.rows):
        there = Matrix(tile.address + read(0, places + row * WORD), 1, tile.columns, 0, tile.right)
        merge(like, beside + row * width * size, width, there, add)
