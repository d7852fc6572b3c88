"""Micro-kernel for a transposed A that is read in place: the numbers of a step are contiguous."""

from typing import Any

from llvmlite import ir
from numba import types

from .compiled import compiled
from .microkernel import FEW, HEIGHTS, MOST, UNROLLED, Column, accumulate, row_pointer, store_sums, zero_sums
from .simd import I8, I64, Code, Value, instruction


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
def multiply_transposed(
    alpha: Any, inner: Any, a: Any, pitch: Any, b: Any, c: Any, ldc: Any, add: Any, height: Any
) -> None:
    """As `multiply_rows` for A transposed: the numbers of a step are contiguous, steps `pitch` bytes apart."""
    if height > MOST:
        _all(alpha, inner, a, pitch, b, c, ldc, add)
    elif height > FEW:
        _most(alpha, inner, a, pitch, b, c, ldc, add)
    else:
        _few(alpha, inner, a, pitch, b, c, ldc, add)
