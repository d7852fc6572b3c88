"""Register tiles of which A is anywhere in memory: sums over entries, each of which says where its part of A lies."""

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types

from ...cpu.compiled import compiled
from ...cpu.load_store import bytes_of
from ...cpu.microkernel import LONG, UNROLLED, WORD, Column, columns_of, nothing, row_of, stored, summed
from ...cpu.simd import I8, I64, LINE, OWN, ROWS, VECTORS, Code, Value, Vectors, instruction

ENTRY, STRIP = 3, 2  # words of an entry of `multiply_places`, of `multiply_strip`
TALL = OWN.count - 2 * UNROLLED  # rows of a tile one vector wide whose columns lie in one piece
SHORT = TALL // 2


def _places_of(vectors: int, side_by_side: bool) -> Any:
    """The instruction for the first vectors of a tile's rows, made of numbers of A that lie side by side or apart."""

    @instruction
    def multiply(
        typingctx: Any, alpha: Any, inner: Any, apart: Any, entries: Any, count: Any,
        b: Any, c: Any, right: Any, add: Any,
    ) -> Any:
        def generate(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> Any:
            code = Code(builder, alpha)
            factor, steps, apart, entries, count, b, c, right, add = arguments
            apart = I64(code.itemsize) if side_by_side else apart

            def entry(index: Value, sums: Vectors) -> Vectors:
                here = code.at(code.pointer(entries), builder.mul(index, I64(ENTRY * WORD)), I8)
                table, behind, sliver = code.numbers(here, ENTRY)
                rows = [code.pointer(builder.add(row, behind)) for row in code.numbers(code.pointer(table), ROWS)]
                turn = UNROLLED if vectors > 1 else LONG
                return summed(code, steps, columns_of(code, rows, apart), builder.add(b, sliver), sums, target, turn)

            def target(row: Value) -> Value:
                address = code.numbers(code.at(code.pointer(c), builder.mul(row, I64(WORD)), I8), 1)[0]
                return code.pointer(builder.add(address, right))

            sums = code.repeat(I64(0), count, 1, nothing(code, ROWS, vectors), entry)[1]
            stored(code, sums, factor, target, add)
            return context.get_dummy_value()

        return types.void(alpha, *[types.intp] * 7, types.boolean), generate

    return multiply


_all_vectors, _first_vector = (_places_of(vectors, True) for vectors in (VECTORS, 1))
_all_of_spread, _first_of_spread = (_places_of(vectors, False) for vectors in (VECTORS, 1))


@compiled
def multiply_places(
    alpha: Any, inner: Any, apart: Any, entries: Any, count: Any, b: Any, c: Any, right: Any, add: Any, narrow: Any
) -> None:
    """C = alpha A B, or + C, summed over `count` entries of `inner` steps each, whose rows may lie anywhere.

    Numbers of a row are `apart` bytes from each other. An entry says where ROWS addresses of rows of A stand, how many
    bytes behind these the rows begin, and how many bytes from `b` on its part of the sliver. c: ROWS addresses of rows
    of C, whose tile begins `right` bytes on. A narrow tile is one vector wide, of a sliver as wide as others.
    """
    if apart == bytes_of(alpha):
        if narrow:
            _first_vector(alpha, inner, apart, entries, count, b, c, right, add)
        else:
            _all_vectors(alpha, inner, apart, entries, count, b, c, right, add)
    elif narrow:
        _first_of_spread(alpha, inner, apart, entries, count, b, c, right, add)
    else:
        _all_of_spread(alpha, inner, apart, entries, count, b, c, right, add)


def _strip_of(height: int, vectors: int) -> Any:
    """The instruction for rows of A whose numbers of a step lie side by side, and steps `apart` bytes apart."""

    @instruction
    def multiply(
        typingctx: Any, alpha: Any, inner: Any, apart: Any, entries: Any, count: Any, pitch: Any, c: Any, ldc: Any,
        ahead: Any,
    ) -> Any:
        def generate(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> Any:
            code = Code(builder, alpha)
            factor, steps, apart, entries, count, pitch, c, ldc, ahead = arguments
            target = row_of(code, c, ldc)

            def entry(index: Value, sums: Vectors) -> Vectors:
                here = code.at(code.pointer(entries), builder.mul(index, I64(STRIP * WORD)), I8)
                first, b = code.numbers(here, STRIP)
                near = code.at(code.pointer(ahead), builder.mul(builder.mul(index, steps), I64(LINE)), I8)
                columns = _strip(code, first, apart, near)
                return summed(code, steps, columns, b, sums, target, UNROLLED, pitch)

            sums = code.repeat(I64(0), count, 1, nothing(code, height, vectors), entry)[1]
            stored(code, sums, factor, target, ir.Constant(ir.IntType(1), 1))
            return context.get_dummy_value()

        return types.void(alpha, *[types.intp] * 8), generate

    return multiply


_wide_strip, _narrow_strip, _short_strip = _strip_of(ROWS, VECTORS), _strip_of(TALL, 1), _strip_of(SHORT, 1)


@compiled
def multiply_strip(
    alpha: Any, inner: Any, apart: Any, entries: Any, count: Any, pitch: Any, c: Any, ldc: Any, height: Any, ahead: Any
) -> None:
    """C += alpha A B over `count` entries of `inner` steps, of which each has its column of A in one piece.

    An entry says where its first column and its first row of B begin; columns are `apart` bytes apart, rows of B
    `pitch`. A tile has ROWS rows or, if it is one vector wide, TALL or SHORT. Each step has a line brought near that
    will be wanted next, from `ahead` on.
    """
    if height == ROWS:
        _wide_strip(alpha, inner, apart, entries, count, pitch, c, ldc, ahead)
    elif height == TALL:
        _narrow_strip(alpha, inner, apart, entries, count, pitch, c, ldc, ahead)
    else:
        _short_strip(alpha, inner, apart, entries, count, pitch, c, ldc, ahead)


def _strip(code: Code, first: Value, apart: Value, near: Value) -> Callable[[Value], Column]:
    """Columns of A that lie in one piece each, so many bytes apart."""

    def columns(index: Value) -> Column:
        code.expect(code.at(near, code.builder.mul(index, I64(LINE)), I8), UNROLLED)
        places = [code.builder.mul(code.builder.add(index, I64(step)), apart) for step in range(UNROLLED)]
        starts = [code.at(code.pointer(first), place, I8) for place in places]
        return lambda step, row: code.broadcast(starts[step], row * code.itemsize)

    return columns
