"""Products of tiles of attention, by the micro-kernels of the matrix product.

The left operand of a product is rows of any pitch, or such rows transposed; the right one is slivers of all places.
"""

from typing import Any, NamedTuple

from ...cpu.compiled import compiled
from ...cpu.function_pointer import FunctionPointer, call_pointer, function_pointer
from ...cpu.load_store import bytes_of
from ...cpu.macrokernel import sliver_width
from ...cpu.microkernel import multiply_rows
from ...cpu.simd import ROWS
from ...cpu.transposed_microkernel import multiply_transposed


class Kernels(NamedTuple):
    """Pointers to the micro-kernels of rows and of transposed rows."""

    rows: FunctionPointer
    transposed: FunctionPointer


def kernels(one: Any) -> Kernels:
    """The micro-kernels for numbers of the type of `one`."""
    given = (one, 0, 0, 0, 0, 0, 0, False, 0)
    return Kernels(function_pointer(multiply_rows, *given, 0), function_pointer(multiply_transposed, *given))


@compiled
def _by_rows(
    kernels: Any, alpha: Any, inner: Any, a: Any, lda: Any, b: Any, c: Any, ldc: Any, add: Any, height: Any,
    prefetch: Any,
) -> None:
    call_pointer(multiply_rows, kernels.rows, (alpha, inner, a, lda, b, c, ldc, add, height, prefetch))


@compiled
def _by_columns(
    kernels: Any, alpha: Any, inner: Any, a: Any, pitch: Any, b: Any, c: Any, ldc: Any, add: Any, height: Any
) -> None:
    call_pointer(multiply_transposed, kernels.transposed, (alpha, inner, a, pitch, b, c, ldc, add, height))


@compiled
def scores_of_tile(kernels: Any, alpha: Any, tile: Any, rows: Any, slivers: Any, target: Any, layout: Any) -> None:
    """target = alpha rows . slivers, of `tile.queries` rows and `tile.keys` keys, where a row sees a key."""
    size, width = bytes_of(alpha), sliver_width(alpha)
    pitch = layout.row_pitch
    for column in range(0, tile.keys, width):
        sliver = slivers + (tile.key + column) * layout.features * size
        for row in range(0, tile.queries, ROWS):
            height = min(ROWS, tile.queries - row)
            if tile.key + column < tile.first + row + height:
                a, c = rows + (tile.first + row) * pitch, target + row * layout.tile_pitch + column * size
                _by_rows(kernels, alpha, layout.features, a, pitch, sliver, c, layout.tile_pitch, False, height, 0)


@compiled
def add_weighted(
    kernels: Any, alpha: Any, tile: Any, weights: Any, slivers: Any, sums: Any, add: Any, layout: Any
) -> None:
    """sums (+)= alpha weights . slivers: rows of a tile times the keys that they see."""
    size, width = bytes_of(alpha), sliver_width(alpha)
    for column in range(0, layout.features, width):
        sliver = slivers + (column * layout.places + tile.key * width) * size
        for row in range(0, tile.queries, ROWS):
            height = min(ROWS, tile.queries - row)
            steps = min(tile.keys, tile.first + row + height - tile.key)
            a, c = weights + row * layout.tile_pitch, sums + row * layout.row_pitch + column * size
            _by_rows(kernels, alpha, steps, a, layout.tile_pitch, sliver, c, layout.row_pitch, add, height, 0)


@compiled
def add_transposed(kernels: Any, alpha: Any, tile: Any, weights: Any, slivers: Any, sums: Any, layout: Any) -> None:
    """sums (+)= alpha weights^T . slivers: keys of a tile times the queries that see them.

    Sums of a key begin in the tile in which its own place is a query.
    """
    size, width = bytes_of(alpha), sliver_width(alpha)
    for column in range(0, layout.features, width):
        sliver = slivers + (column * layout.places + tile.first * width) * size
        for row in range(0, tile.keys, ROWS):
            start = max(0, tile.key + row - tile.first)
            a, b = weights + start * layout.tile_pitch + row * size, sliver + start * width * size
            c, add = sums + row * layout.row_pitch + column * size, tile.key + row < tile.first
            height = min(ROWS, tile.keys - row)
            _by_columns(kernels, alpha, tile.queries - start, a, layout.tile_pitch, b, c, layout.row_pitch, add, height)
