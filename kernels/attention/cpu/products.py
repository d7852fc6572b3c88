"""Products of tiles of attention, by the micro-kernels of the matrix product.

The left operand of a product is rows of any pitch, or such rows transposed; the right one is slivers of all places.
"""

from typing import Any, NamedTuple

from llvmlite import ir
from numba import types

from ...cpu.compiled import compiled
from ...cpu.function_pointer import FunctionPointer, call_pointer, function_pointer
from ...cpu.load_store import bytes_of
from ...cpu.macrokernel import sliver_width
from ...cpu.microkernel import (
    FEW,
    HEIGHTS,
    MOST,
    UNROLLED,
    Column,
    accumulate,
    multiply_rows,
    row_pointer,
    store_sums,
    zero_sums,
)
from ...cpu.simd import I8, I64, ROWS, Code, Value, instruction


class Kernels(NamedTuple):
    """Pointers to the micro-kernels of rows and of transposed rows."""

    rows: FunctionPointer
    transposed: FunctionPointer


def kernels(one: Any) -> Kernels:
    """The micro-kernels for numbers of the type of `one`."""
    given = (one, 0, 0, 0, 0, 0, 0, False, 0)
    return Kernels(function_pointer(multiply_rows, *given, 0), function_pointer(_multiply_transposed, *given))


def _transposed_of(height: int) -> Any:
    """The instruction for the first `height` columns of A, which are the rows of a tile."""

    @instruction
    def multiply(
        typingctx: Any, alpha: Any, inner: Any, a: Any, pitch: Any, b: Any, c: Any, ldc: Any, add: Any
    ) -> Any:
        def generate(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> Any:
            code = Code(builder, alpha)
            factor, steps, first, pitch, b, c, ldc, add = arguments
            start = code.pointer(first)

            def columns(index: Value) -> Column:
                offsets = [builder.mul(builder.add(index, I64(step)), pitch) for step in range(UNROLLED)]
                lines = [code.at(start, offset, I8) for offset in offsets]
                return lambda step, row: code.broadcast(lines[step], row * code.itemsize)

            row = row_pointer(code, c, ldc)
            sums = accumulate(code, steps, columns, b, zero_sums(code, height), row, UNROLLED)
            store_sums(code, sums, factor, row, add)
            return context.get_dummy_value()

        return types.void(alpha, *[types.intp] * 6, types.boolean), generate

    return multiply


_all, _most, _few = (_transposed_of(height) for height in HEIGHTS)


@compiled
def _multiply_transposed(
    alpha: Any, inner: Any, a: Any, pitch: Any, b: Any, c: Any, ldc: Any, add: Any, height: Any
) -> None:
    """As `multiply_rows` for A transposed: the numbers of a step are contiguous, steps `pitch` bytes apart."""
    if height > MOST:
        _all(alpha, inner, a, pitch, b, c, ldc, add)
    elif height > FEW:
        _most(alpha, inner, a, pitch, b, c, ldc, add)
    else:
        _few(alpha, inner, a, pitch, b, c, ldc, add)


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
    call_pointer(_multiply_transposed, kernels.transposed, (alpha, inner, a, pitch, b, c, ldc, add, height))


@compiled
def scores_of_tile(kernels: Any, alpha: Any, tile: Any, rows: Any, slivers: Any, target: Any, layout: Any) -> None:
    """target = alpha rows . slivers, of `tile.count` rows and `tile.keys` keys, where a row sees a key."""
    size, width = bytes_of(alpha), sliver_width(alpha)
    pitch = layout.row_pitch
    for column in range(0, tile.keys, width):
        sliver = slivers + (tile.key + column) * layout.features * size
        for row in range(0, tile.count, ROWS):
            height = min(ROWS, tile.count - row)
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
        for row in range(0, tile.count, ROWS):
            height = min(ROWS, tile.count - row)
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
            _by_columns(kernels, alpha, tile.count - start, a, layout.tile_pitch, b, c, layout.row_pitch, add, height)
