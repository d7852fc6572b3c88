"""Micro-kernel: ROWS x (VECTORS * lanes) sums of C that stay in registers while products are added.

Each step loads the vectors of one row of a sliver of B, broadcasts each number of a column of A to all lanes, and
multiplies and adds. B is a sliver, one row after the other. A is either rows at any address, or a panel, one column
after the other. docs/KERNELS.md explains it step by step.
"""

from collections.abc import Callable, Iterator
from typing import Any

from llvmlite import ir
from numba import types

from .compiled import compiled
from .simd import I8, I64, LINE, ROWS, VECTORS, Code, Value, Vectors, instruction

UNROLLED = 4  # steps of an iteration
LONG_UNROLLED = 8  # steps of an iteration where rows of A have any address and a tile is one vector wide
WORD = 8  # bytes of an address
HEIGHTS = ROWS, max(1, 2 * ROWS // 3), max(1, ROWS // 3 + 1)  # rows of a tile; the last tile of a block may have few
Column = Callable[[int, int], Value]  # (step of the iteration, row) -> broadcast number of A
Row = Callable[[Value], Value]  # row -> pointer to it in C


def _rows_of(height: int, prefetches: bool = False) -> Any:
    """The instruction for the first `height` rows of a tile, with A as rows in memory."""

    @instruction
    def multiply(
        typingctx: Any, alpha: Any, inner: Any, a: Any, lda: Any, b: Any, c: Any, ldc: Any, add: Any, prefetch: Any
    ) -> Any:
        def generate(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> Any:
            code = Code(builder, alpha)
            factor, steps, first, lda, b, c, ldc, add, prefetch = arguments
            rows, prefetch_from = (
                [row_pointer(code, first, lda)(I64(row)) for row in range(height)],
                code.pointer(prefetch),
            )

            def columns(index: Value) -> Column:
                if prefetches:
                    code.prefetch_read(code.at(prefetch_from, builder.mul(index, I64(LINE)), I8), UNROLLED)
                return column_reader(code, rows, I64(code.itemsize))(index)

            row = row_pointer(code, c, ldc)
            store_sums(
                code, accumulate(code, steps, columns, b, zero_sums(code, height), row, UNROLLED), factor, row, add
            )
            return context.get_dummy_value()

        return types.void(alpha, *[types.intp] * 6, types.boolean, types.intp), generate

    return multiply


def _panel_of(height: int, prefetches: bool = False) -> Any:
    """The instruction for the first `height` rows of a tile, with A as a panel."""

    @instruction
    def multiply(
        typingctx: Any, alpha: Any, inner: Any, a: Any, b: Any, c: Any, ldc: Any, add: Any, prefetch: Any
    ) -> Any:
        def generate(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> Any:
            code = Code(builder, alpha)
            factor, steps, first, b, c, ldc, add, prefetch = arguments
            panel, prefetch_from = code.pointer(first), code.pointer(prefetch)

            def columns(index: Value) -> Column:
                here = code.at(panel, builder.mul(index, I64(ROWS * code.itemsize)), I8)
                if prefetches:
                    code.prefetch_read(code.at(prefetch_from, builder.mul(index, I64(LINE)), I8), UNROLLED)
                return lambda step, row: code.broadcast(here, (step * ROWS + row) * code.itemsize)

            row = row_pointer(code, c, ldc)
            store_sums(
                code, accumulate(code, steps, columns, b, zero_sums(code, height), row, UNROLLED), factor, row, add
            )
            return context.get_dummy_value()

        return types.void(alpha, *[types.intp] * 5, types.boolean, types.intp), generate

    return multiply


_all_rows, _most_rows, _few_rows = (_rows_of(height) for height in HEIGHTS)
_all_of_panel, _most_of_panel, _few_of_panel = (_panel_of(height) for height in HEIGHTS)
_rows_and_prefetch, _panel_and_prefetch = _rows_of(ROWS, True), _panel_of(ROWS, True)
MOST, FEW = HEIGHTS[1:]


@compiled
def multiply_rows(
    alpha: Any, inner: Any, a: Any, lda: Any, b: Any, c: Any, ldc: Any, add: Any, height: Any, prefetch: Any
) -> None:
    """Compute C = alpha A B, or C += alpha A B, over `inner` steps; rows of A are `lda`, rows of C `ldc` bytes apart.

    Types are that of alpha. `height` rows are wanted, `rows_computed(height)` are computed. Each step of a whole tile
    prefetches one line from `prefetch` on, unless that is 0.
    """
    if height > MOST and prefetch:
        _rows_and_prefetch(alpha, inner, a, lda, b, c, ldc, add, prefetch)
    elif height > MOST:
        _all_rows(alpha, inner, a, lda, b, c, ldc, add, prefetch)
    elif height > FEW:
        _most_rows(alpha, inner, a, lda, b, c, ldc, add, prefetch)
    else:
        _few_rows(alpha, inner, a, lda, b, c, ldc, add, prefetch)


@compiled
def multiply_panel(
    alpha: Any, inner: Any, a: Any, b: Any, c: Any, ldc: Any, add: Any, height: Any, prefetch: Any
) -> None:
    """The same as `multiply_rows`, with A as a panel of ROWS numbers a step."""
    if height > MOST and prefetch:
        _panel_and_prefetch(alpha, inner, a, b, c, ldc, add, prefetch)
    elif height > MOST:
        _all_of_panel(alpha, inner, a, b, c, ldc, add, prefetch)
    elif height > FEW:
        _most_of_panel(alpha, inner, a, b, c, ldc, add, prefetch)
    else:
        _few_of_panel(alpha, inner, a, b, c, ldc, add, prefetch)


@compiled
def rows_computed(height: Any) -> Any:
    """Rows that the micro-kernel computes where `height` rows are wanted."""
    return ROWS if height > MOST else MOST if height > FEW else FEW


def column_reader(code: Code, rows: list[Value], apart: Value) -> Callable[[Value], Column]:
    """Columns of A from pointers to its rows; numbers of a row are `apart` bytes apart."""

    def columns(index: Value) -> Column:
        offsets = [code.builder.mul(code.builder.add(index, I64(step)), apart) for step in range(LONG_UNROLLED)]
        return lambda step, row: code.broadcast(rows[row], offsets[step])

    return columns


def zero_sums(code: Code, height: int, vectors: int = VECTORS) -> Vectors:
    return [[code.zero] * vectors for _ in range(height)]


def row_pointer(code: Code, first: Value, apart: Value) -> Row:
    return lambda row: code.pointer(code.builder.add(first, code.builder.mul(apart, row)))


def accumulate(
    code: Code, steps: Value, columns: Callable[[Value], Column], b: Value, sums: Vectors, target: Row, unrolled: int,
    pitch: Value | None = None,
) -> Vectors:
    """Add the products of all steps to the sums of a tile: `unrolled` steps an iteration, then one by one.

    Rows of B are `pitch` bytes apart; without a pitch they are those of a sliver.
    """
    vector_nbytes = code.lanes * code.itemsize
    width, sliver = VECTORS * vector_nbytes, code.pointer(b)

    def row_of_b(index: Value, step: int) -> Value:
        if pitch is None:
            return code.at(sliver, code.builder.add(code.builder.mul(index, I64(width)), I64(step * width)), I8)
        return code.at(sliver, code.builder.mul(code.builder.add(index, I64(step)), pitch), I8)

    def iteration(count: int) -> Callable[[Value, Vectors], Vectors]:
        def body(index: Value, sums: Vectors) -> Vectors:
            if count == unrolled:
                for later in range(0, unrolled, UNROLLED):
                    _prefetch_result(code, code.builder.add(index, I64(later)), sums, target)
            column = columns(index)
            rows_of_b: list[Vectors] = []
            sums = list(sums)
            for step, row in _iteration_order(count, len(sums), unrolled):
                if step == len(rows_of_b):
                    here = row_of_b(index, step)
                    rows_of_b.append([code.load(here, place * vector_nbytes) for place in range(len(sums[0]))])
                number = column(step, row)
                sums[row] = [
                    code.multiply_add(number, vector, sum_)
                    for vector, sum_ in zip(rows_of_b[step], sums[row], strict=True)
                ]
            return sums

        return body

    index, sums = code.loop(I64(0), steps, unrolled, sums, iteration(unrolled))
    return code.loop(index, steps, 1, sums, iteration(1))[1]


def _iteration_order(steps: int, rows: int, unrolled: int) -> Iterator[tuple[int, int]]:
    """Order of the (step, row) pairs of an iteration.

    In a long iteration the steps of a row follow one another, so that the address of the row is loaded once. Rows are
    processed in two halves, as each sum depends on the previous one.
    """
    at_once = rows if unrolled < LONG_UNROLLED else rows // 2
    for first in range(0, rows, at_once):
        yield from ((step, row) for step in range(steps) for row in range(first, min(first + at_once, rows)))


def _prefetch_result(code: Code, index: Value, sums: Vectors, target: Row) -> None:
    """Prefetch one row of C every UNROLLED steps; prefetching all rows at once would delay loads of A and B."""
    iteration, last = code.builder.udiv(index, I64(UNROLLED)), I64(len(sums) - 1)
    row = target(code.builder.select(code.builder.icmp_signed("<", iteration, last), iteration, last))
    for place in range(len(sums[0])):
        code.prefetch_write(row, place * code.lanes * code.itemsize)


def store_sums(code: Code, sums: Vectors, alpha: Value, target: Row, add: Value) -> None:
    """Scale the sums, and store them in the rows of C or add them."""
    factor = code.splat(alpha)

    def store(old: Callable[[Value, int], Value]) -> None:
        for row, vectors in enumerate(sums):
            here = target(I64(row))
            for place, vector in enumerate(vectors):
                offset = place * code.lanes * code.itemsize
                code.store(code.scaled(vector, factor, old(here, offset)), here, offset)

    with code.builder.if_else(add) as (then, otherwise):
        with then:
            store(code.load)
        with otherwise:
            store(lambda here, offset: code.zero)
