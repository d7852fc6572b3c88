"""The register tile: ROWS x (VECTORS * lanes) sums that stay in registers while products are added to them.

All the speed of the kernels is here: of each step, the vectors of a sliver of B are loaded once, and each number of a
column of A is spread over the lanes and multiplied with them. B lies as a sliver, its rows one after the other; A as
rows, anywhere in memory, or as a panel, its columns one after the other. docs/KERNELS.md walks through it.
"""

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types

from .simd import I64, ROWS, VECTORS, Code, Value, Vectors, instruction

UNROLLED = 4  # steps of the loop in one turn
Column = Callable[[int, int], Value]  # spread number of a step of the turn, and of a row


@instruction
def multiply_rows(typingctx: Any, alpha: Any, inner: Any, a: Any, lda: Any, b: Any, c: Any, ldc: Any, add: Any) -> Any:
    """C = alpha A B, or + C: A with rows lda bytes apart, C ldc; `inner` steps; of alpha's type. For loops in Numba."""
    signature = types.void(alpha, *[types.intp] * 6, types.boolean)

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> Any:
        code = Code(builder, alpha)
        factor, steps, first, lda, b, c, ldc, add = arguments
        rows = [code.pointer(builder.add(first, builder.mul(lda, I64(row)))) for row in range(ROWS)]

        def columns(index: Value) -> Column:
            offset = builder.mul(index, I64(code.itemsize))
            here = [code.at(row, offset, ir.IntType(8)) for row in rows]
            return lambda step, row: code.broadcast(here[row], step * code.itemsize)

        _finish(code, _sums(code, steps, columns, code.pointer(b)), factor, code.pointer(c), ldc, add)
        return context.get_dummy_value()

    return signature, generate


@instruction
def multiply_panel(typingctx: Any, alpha: Any, inner: Any, a: Any, b: Any, c: Any, ldc: Any, add: Any) -> Any:
    """C = alpha A B, or + C: A as a panel of ROWS numbers a step; else like `multiply_rows`."""
    signature = types.void(alpha, *[types.intp] * 5, types.boolean)

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> Any:
        code = Code(builder, alpha)
        factor, steps, first, b, c, ldc, add = arguments
        panel = code.pointer(first)

        def columns(index: Value) -> Column:
            here = code.at(panel, builder.mul(index, I64(ROWS * code.itemsize)), ir.IntType(8))
            return lambda step, row: code.broadcast(here, (step * ROWS + row) * code.itemsize)

        _finish(code, _sums(code, steps, columns, code.pointer(b)), factor, code.pointer(c), ldc, add)
        return context.get_dummy_value()

    return signature, generate


def _sums(code: Code, steps: Value, columns: Callable[[Value], Column], sliver: Value) -> Vectors:
    """The tile's sums over all steps: UNROLLED at a time, then one by one."""
    width = VECTORS * code.lanes * code.itemsize

    def turn(count: int) -> Callable[[Value, Vectors], Vectors]:
        def body(index: Value, sums: Vectors) -> Vectors:
            b, column = code.at(sliver, code.builder.mul(index, I64(width)), ir.IntType(8)), columns(index)
            for step in range(count):
                row_of_b = [code.load(b, step * width + place * code.itemsize * code.lanes) for place in range(VECTORS)]
                sums = [
                    [code.multiply_add(number, vector, sum_) for vector, sum_ in zip(row_of_b, row, strict=True)]
                    for row, number in zip(sums, (column(step, row) for row in range(ROWS)), strict=True)
                ]
            return sums

        return body

    nothing = [[code.zero] * VECTORS for _ in range(ROWS)]
    index, sums = code.repeat(I64(0), steps, UNROLLED, nothing, turn(UNROLLED))
    return code.repeat(index, steps, 1, sums, turn(1))[1]


def _finish(code: Code, sums: Vectors, alpha: Value, c: Value, ldc: Value, add: Value) -> None:
    """Scale the sums, and store them or add them to what C holds."""
    factor = code.spread(alpha)

    def store(old: Callable[[Value, int], Value]) -> None:
        for row, vectors in enumerate(sums):
            here = code.at(c, code.builder.mul(ldc, I64(row)), ir.IntType(8))
            for place, vector in enumerate(vectors):
                offset = place * code.lanes * code.itemsize
                code.store(code.scaled(vector, factor, old(here, offset)), here, offset)

    with code.builder.if_else(add) as (then, otherwise):
        with then:
            store(code.load)
        with otherwise:
            store(lambda here, offset: code.zero)
