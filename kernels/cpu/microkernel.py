"""The register tile: ROWS x (VECTORS * lanes) sums that stay in registers while products are added to them.

All the speed of the kernels is here: of each step, the vectors of a sliver of B are loaded once, and each number of a
column of A is spread over the lanes and multiplied with them. B lies as a sliver, its rows one after the other; A as
rows, anywhere in memory, or as a panel, its columns one after the other. docs/KERNELS.md walks through it.
"""

from collections.abc import Callable, Iterator
from typing import Any

from llvmlite import ir
from numba import types

from .compiled import compiled
from .simd import I8, I64, LINE, ROWS, VECTORS, Code, Value, Vectors, instruction

UNROLLED = 4  # steps of the loop in one turn
LONG = 8  # steps in one turn where rows lie anywhere and a tile is one vector wide
WORD = 8  # bytes of an address
HEIGHTS = ROWS, max(1, 2 * ROWS // 3), max(1, ROWS // 3 + 1)  # of tiles: the last of a block may have few rows
Column = Callable[[int, int], Value]  # spread number of a step of the turn, and of a row
Row = Callable[[Value], Value]  # pointer to a row of C


def _rows_of(height: int, fetches: bool = False) -> Any:
    """The instruction for the first `height` rows of a tile, those of A somewhere in memory."""

    @instruction
    def multiply(
        typingctx: Any, alpha: Any, inner: Any, a: Any, lda: Any, b: Any, c: Any, ldc: Any, add: Any, ahead: Any
    ) -> Any:
        def generate(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> Any:
            code = Code(builder, alpha)
            factor, steps, first, lda, b, c, ldc, add, ahead = arguments
            rows, coming = [row_of(code, first, lda)(I64(row)) for row in range(height)], code.pointer(ahead)

            def columns(index: Value) -> Column:
                if fetches:
                    code.expect(code.at(coming, builder.mul(index, I64(LINE)), I8), UNROLLED)
                return columns_of(code, rows, I64(code.itemsize))(index)

            row = row_of(code, c, ldc)
            stored(code, summed(code, steps, columns, b, nothing(code, height), row, UNROLLED), factor, row, add)
            return context.get_dummy_value()

        return types.void(alpha, *[types.intp] * 6, types.boolean, types.intp), generate

    return multiply


def _panel_of(height: int, fetches: bool = False) -> Any:
    """The instruction for the first `height` rows of a tile, those of A in a panel."""

    @instruction
    def multiply(typingctx: Any, alpha: Any, inner: Any, a: Any, b: Any, c: Any, ldc: Any, add: Any, ahead: Any) -> Any:
        def generate(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> Any:
            code = Code(builder, alpha)
            factor, steps, first, b, c, ldc, add, ahead = arguments
            panel, coming = code.pointer(first), code.pointer(ahead)

            def columns(index: Value) -> Column:
                here = code.at(panel, builder.mul(index, I64(ROWS * code.itemsize)), I8)
                if fetches:
                    code.expect(code.at(coming, builder.mul(index, I64(LINE)), I8), UNROLLED)
                return lambda step, row: code.broadcast(here, (step * ROWS + row) * code.itemsize)

            row = row_of(code, c, ldc)
            stored(code, summed(code, steps, columns, b, nothing(code, height), row, UNROLLED), factor, row, add)
            return context.get_dummy_value()

        return types.void(alpha, *[types.intp] * 5, types.boolean, types.intp), generate

    return multiply


_all_rows, _most_rows, _few_rows = (_rows_of(height) for height in HEIGHTS)
_all_of_panel, _most_of_panel, _few_of_panel = (_panel_of(height) for height in HEIGHTS)
_rows_and_fetch, _panel_and_fetch = _rows_of(ROWS, True), _panel_of(ROWS, True)
MOST, FEW = HEIGHTS[1:]


@compiled
def multiply_rows(
    alpha: Any, inner: Any, a: Any, lda: Any, b: Any, c: Any, ldc: Any, add: Any, height: Any, ahead: Any
) -> None:
    """C = alpha A B, or + C: A with rows lda bytes apart, C ldc; `inner` steps; of alpha's type.

    Of the tile's rows `height` are wanted, and `made(height)` are made. Each step of a whole tile has a line
    brought near that will be wanted next, from `ahead` on, unless that is 0.
    """
    if height > MOST and ahead:
        _rows_and_fetch(alpha, inner, a, lda, b, c, ldc, add, ahead)
    elif height > MOST:
        _all_rows(alpha, inner, a, lda, b, c, ldc, add, ahead)
    elif height > FEW:
        _most_rows(alpha, inner, a, lda, b, c, ldc, add, ahead)
    else:
        _few_rows(alpha, inner, a, lda, b, c, ldc, add, ahead)


@compiled
def multiply_panel(
    alpha: Any, inner: Any, a: Any, b: Any, c: Any, ldc: Any, add: Any, height: Any, ahead: Any
) -> None:
    """C = alpha A B, or + C: A as a panel of ROWS numbers a step; else like `multiply_rows`."""
    if height > MOST and ahead:
        _panel_and_fetch(alpha, inner, a, b, c, ldc, add, ahead)
    elif height > MOST:
        _all_of_panel(alpha, inner, a, b, c, ldc, add, ahead)
    elif height > FEW:
        _most_of_panel(alpha, inner, a, b, c, ldc, add, ahead)
    else:
        _few_of_panel(alpha, inner, a, b, c, ldc, add, ahead)


@compiled
def made(height: Any) -> Any:
    """How many rows of a tile are made where `height` are wanted."""
    return ROWS if height > MOST else MOST if height > FEW else FEW


def columns_of(code: Code, rows: list[Value], apart: Value) -> Callable[[Value], Column]:
    """Columns of A whose rows begin at these pointers, each number `apart` bytes from the next."""

    def columns(index: Value) -> Column:
        offsets = [code.builder.mul(code.builder.add(index, I64(step)), apart) for step in range(LONG)]
        return lambda step, row: code.broadcast(rows[row], offsets[step])

    return columns


def nothing(code: Code, height: int, vectors: int = VECTORS) -> Vectors:
    return [[code.zero] * vectors for _ in range(height)]


def row_of(code: Code, first: Value, apart: Value) -> Row:
    return lambda row: code.pointer(code.builder.add(first, code.builder.mul(apart, row)))


def summed(
    code: Code, steps: Value, columns: Callable[[Value], Column], b: Value, sums: Vectors, target: Row, unrolled: int,
    pitch: Value | None = None,
) -> Vectors:
    """The tile's sums and those over all steps: so many at a time, then one by one. Rows of B are `pitch` bytes apart;
    without, they are a sliver's."""
    vector_nbytes = code.lanes * code.itemsize
    width, sliver = VECTORS * vector_nbytes, code.pointer(b)

    def row_of_b(index: Value, step: int) -> Value:
        if pitch is None:
            return code.at(sliver, code.builder.add(code.builder.mul(index, I64(width)), I64(step * width)), I8)
        return code.at(sliver, code.builder.mul(code.builder.add(index, I64(step)), pitch), I8)

    def turn(count: int) -> Callable[[Value, Vectors], Vectors]:
        def body(index: Value, sums: Vectors) -> Vectors:
            if count == unrolled:
                for steps_on in range(0, unrolled, UNROLLED):
                    _fetch(code, code.builder.add(index, I64(steps_on)), sums, target)
            column = columns(index)
            rows_of_b: list[Vectors] = []
            sums = list(sums)
            for step, row in _order(count, len(sums), unrolled):
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

    index, sums = code.repeat(I64(0), steps, unrolled, sums, turn(unrolled))
    return code.repeat(index, steps, 1, sums, turn(1))[1]


def _order(steps: int, rows: int, unrolled: int) -> Iterator[tuple[int, int]]:
    """Steps and rows of a turn. In a long one a row's steps follow one another, so that its address is read once; in
    two halves, as a sum waits for the one before."""
    at_once = rows if unrolled < LONG else rows // 2
    for first in range(0, rows, at_once):
        yield from ((step, row) for step in range(steps) for row in range(first, min(first + at_once, rows)))


def _fetch(code: Code, index: Value, sums: Vectors, target: Row) -> None:
    """Every UNROLLED steps a row of C is brought near that will be written: all at once would keep A and B waiting."""
    turn, last = code.builder.udiv(index, I64(UNROLLED)), I64(len(sums) - 1)
    row = target(code.builder.select(code.builder.icmp_signed("<", turn, last), turn, last))
    for place in range(len(sums[0])):
        code.fetch(row, place * code.lanes * code.itemsize)


def stored(code: Code, sums: Vectors, alpha: Value, target: Row, add: Value) -> None:
    """Scale the sums, and store them in the rows of C or add them to what these hold."""
    factor = code.spread(alpha)

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
