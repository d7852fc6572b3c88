"""Micro-kernels with indirection: tiles whose rows or columns of A are found through entries with their addresses."""

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types

from ...cpu.compiled import compiled
from ...cpu.load_store import bytes_of
from ...cpu.microkernel import (
    LONG_UNROLLED,
    UNROLLED,
    WORD,
    Column,
    accumulate,
    column_reader,
    row_pointer,
    store_sums,
    zero_sums,
)
from ...cpu.simd import HOST, I8, I64, LINE, ROWS, VECTORS, Code, Value, Vectors, instruction

ENTRY, STRIP = 3, 2  # 64-bit words of an entry of multiply_indirect and of multiply_strip
TALL = HOST.count - 2 * UNROLLED  # rows of a tile one vector wide with contiguous columns
SHORT = TALL // 2


def _indirect_of(vectors: int, contiguous: bool) -> Any:
    """The instruction for the first vectors of a tile, with contiguous or strided numbers in rows of A."""

    @instruction
    def multiply(
        typingctx: Any, alpha: Any, inner: Any, stride: Any, entries: Any, count: Any,
        b: Any, c: Any, right: Any, add: Any,
    ) -> Any:
        def generate(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> Any:
            code = Code(builder, alpha)
            factor, steps, stride, entries, count, b, c, right, add = arguments
            stride = I64(code.itemsize) if contiguous else stride

            def entry(index: Value, sums: Vectors) -> Vectors:
                here = code.at(code.pointer(entries), builder.mul(index, I64(ENTRY * WORD)), I8)
                table, offset, sliver = code.load_int64s(here, ENTRY)
                rows = [code.pointer(builder.add(row, offset)) for row in code.load_int64s(code.pointer(table), ROWS)]
                iteration = UNROLLED if vectors > 1 else LONG_UNROLLED
                return accumulate(
                    code, steps, column_reader(code, rows, stride), builder.add(b, sliver), sums, target, iteration
                )

            def target(row: Value) -> Value:
                address = code.load_int64s(code.at(code.pointer(c), builder.mul(row, I64(WORD)), I8), 1)[0]
                return code.pointer(builder.add(address, right))

            sums = code.loop(I64(0), count, 1, zero_sums(code, ROWS, vectors), entry)[1]
            store_sums(code, sums, factor, target, add)
            return context.get_dummy_value()

        return types.void(alpha, *[types.intp] * 7, types.boolean), generate

    return multiply


_all_vectors, _first_vector = (_indirect_of(vectors, True) for vectors in (VECTORS, 1))
_all_strided, _first_strided = (_indirect_of(vectors, False) for vectors in (VECTORS, 1))


@compiled
def multiply_indirect(
    alpha: Any, inner: Any, stride: Any, entries: Any, count: Any, b: Any, c: Any, right: Any, add: Any, narrow: Any
) -> None:
    """Compute C = alpha A B, or C += alpha A B, summed over `count` entries of `inner` steps each.

    Numbers of a row of A are `stride` bytes apart. An entry holds: the address of a table of ROWS row addresses of A, a
    byte offset to add to them, and the byte offset of its part of the sliver from `b`. c: address of a table of ROWS
    row addresses of C; the tile begins `right` bytes further. A narrow tile is one vector wide, of a sliver of full
    width.
    """
    if stride == bytes_of(alpha):
        if narrow:
            _first_vector(alpha, inner, stride, entries, count, b, c, right, add)
        else:
            _all_vectors(alpha, inner, stride, entries, count, b, c, right, add)
    elif narrow:
        _first_strided(alpha, inner, stride, entries, count, b, c, right, add)
    else:
        _all_strided(alpha, inner, stride, entries, count, b, c, right, add)


def _strip_of(height: int, vectors: int) -> Any:
    """The instruction for contiguous columns of A, `stride` bytes apart."""

    @instruction
    def multiply(
        typingctx: Any, alpha: Any, inner: Any, stride: Any, entries: Any, count: Any, pitch: Any, c: Any, ldc: Any,
        prefetch: Any,
    ) -> Any:
        def generate(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> Any:
            code = Code(builder, alpha)
            factor, steps, stride, entries, count, pitch, c, ldc, prefetch = arguments
            target = row_pointer(code, c, ldc)

            def entry(index: Value, sums: Vectors) -> Vectors:
                here = code.at(code.pointer(entries), builder.mul(index, I64(STRIP * WORD)), I8)
                first, b = code.load_int64s(here, STRIP)
                prefetch_at = code.at(code.pointer(prefetch), builder.mul(builder.mul(index, steps), I64(LINE)), I8)
                columns = _column_strip_reader(code, first, stride, prefetch_at)
                return accumulate(code, steps, columns, b, sums, target, UNROLLED, pitch)

            sums = code.loop(I64(0), count, 1, zero_sums(code, height, vectors), entry)[1]
            store_sums(code, sums, factor, target, ir.Constant(ir.IntType(1), 1))
            return context.get_dummy_value()

        return types.void(alpha, *[types.intp] * 8), generate

    return multiply


_wide_strip, _narrow_strip, _short_strip = _strip_of(ROWS, VECTORS), _strip_of(TALL, 1), _strip_of(SHORT, 1)


@compiled
def multiply_strip(
    alpha: Any,
    inner: Any,
    stride: Any,
    entries: Any,
    count: Any,
    pitch: Any,
    c: Any,
    ldc: Any,
    height: Any,
    prefetch: Any,
) -> None:
    """Compute C += alpha A B over `count` entries of `inner` steps; each column of A is contiguous.

    An entry holds the addresses of its first column of A and its first row of B. Columns are `stride` bytes apart, rows
    of B `pitch`. A tile has ROWS rows, or TALL or SHORT rows if it is one vector wide. Each step prefetches one line
    from `prefetch` on.
    """
    if height == ROWS:
        _wide_strip(alpha, inner, stride, entries, count, pitch, c, ldc, prefetch)
    elif height == TALL:
        _narrow_strip(alpha, inner, stride, entries, count, pitch, c, ldc, prefetch)
    else:
        _short_strip(alpha, inner, stride, entries, count, pitch, c, ldc, prefetch)


def _column_strip_reader(code: Code, first: Value, stride: Value, prefetch_at: Value) -> Callable[[Value], Column]:
    """Reader of contiguous columns of A, so many bytes apart."""

    def columns(index: Value) -> Column:
        code.prefetch_read(code.at(prefetch_at, code.builder.mul(index, I64(LINE)), I8), UNROLLED)
        places = [code.builder.mul(code.builder.add(index, I64(step)), stride) for step in range(UNROLLED)]
        starts = [code.at(code.pointer(first), place, I8) for place in places]
        return lambda step, row: code.broadcast(starts[step], row * code.itemsize)

    return columns
