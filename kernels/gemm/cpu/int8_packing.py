"""Packing for int8 products with exact int32 sums: four neighbouring bytes of a row form one 32-bit word of a tile.

The dot-product instruction takes one operand as unsigned. A is packed as a + 128, and 128 times the column sums of B
are subtracted at the end.
"""

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types

from ...cpu.compiled import compiled
from ...cpu.load_store import read, write
from ...cpu.macrokernel import sliver_width
from ...cpu.packing import submatrix
from ...cpu.simd import I8, I32, I64, VECTORS, Code, Value, Vectors, instruction

WORD = 4  # bytes of a dot product
HALF = 128  # offset from signed to unsigned bytes
HIGHEST_BITS = -0x7F7F7F7F7F7F7F80  # the highest bits of eight bytes


@compiled
def pack_byte_rows(target: Any, pitch: Any, matrix: Any) -> None:
    """Pack rows of A as unsigned bytes, `pitch` bytes apart; bytes beyond a row meet zeros of B."""
    for row in range(matrix.rows):
        to, source = target + row * pitch, matrix.address + row * matrix.row_stride
        whole = matrix.columns - matrix.columns % 8 if matrix.column_stride == 1 else 0
        for place in range(0, whole, 8):
            write(read(np.int64(0), source + place) ^ HIGHEST_BITS, to + place)
        for place in range(whole, matrix.columns):
            write(np.int8(read(np.int8(0), source + place * matrix.column_stride) ^ HALF), to + place)


@compiled
def pack_byte_slivers(target: Any, matrix: Any) -> None:
    """Pack B into slivers: of each column the first four numbers, then of each the next four, padded with zeros."""
    width, words = sliver_width(np.int32(0)), (matrix.rows + WORD - 1) // WORD
    for column in range(0, matrix.columns, width):
        for word in range(words):
            block = submatrix(matrix, word * WORD, column, WORD, width)
            to = target + (column * words + word * width) * WORD
            if block.rows == WORD and block.columns == width and matrix.column_stride == 1:
                _interleave(to, block.address, matrix.row_stride)
            else:
                _gather_words(to, width, block)


@compiled
def _gather_words(target: Any, width: Any, block: Any) -> None:
    for column in range(width):
        for row in range(WORD):
            number = np.int8(0)
            if column < block.columns and row < block.rows:
                number = read(number, block.address + row * block.row_stride + column * block.column_stride)
            write(number, target + column * WORD + row)


@instruction
def _interleave(typingctx: Any, target: Any, source: Any, down: Any) -> Any:
    """Interleave four rows of bytes, `down` bytes apart, into one word a column."""

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> Any:
        code = Code(builder, types.int32)
        width = VECTORS * code.lanes
        to, come = code.pointer(arguments[0]), code.pointer(arguments[1])
        rows = [_bytes(code, come, builder.mul(arguments[2], I64(row)), width) for row in range(WORD)]
        halves = ir.VectorType(ir.IntType(16), width)
        first, second = (builder.bitcast(_zipped(code, rows[row], rows[row + 1], width), halves) for row in (0, 2))
        place = code.at(to, 0, ir.VectorType(ir.IntType(16), 2 * width))
        builder.store(_zipped(code, first, second, width), place).align = 1
        return context.get_dummy_value()

    return types.void(types.intp, types.intp, types.intp), generate


def _bytes(code: Code, pointer: Value, offset: Value, width: int) -> Value:
    loaded = code.builder.load(code.at(pointer, offset, ir.VectorType(I8, width)))
    loaded.align = 1
    return loaded


def _zipped(code: Code, one: Value, other: Value, width: int) -> Value:
    """Interleave two vectors: first of one, first of the other, second of one, ..."""
    return code.shuffle(one, other, [place for lane in range(width) for place in (lane, width + lane)])


@instruction
def take_off_sums(typingctx: Any, target: Any, sliver: Any, words: Any) -> Any:
    """Subtract 128 times the sum of each column of a sliver from int32[width]."""

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> Any:
        code = Code(builder, types.int32)
        to, come = code.pointer(arguments[0]), code.pointer(arguments[1])
        nbytes = code.lanes * code.itemsize
        ones, factor = code.splat(I32(0x01010101)), code.splat(I32(-HALF))

        def body(index: Value, sums: Vectors) -> Vectors:
            here = code.at(come, builder.mul(index, I64(VECTORS * nbytes)), I8)
            vectors = [code.load(here, place * nbytes) for place in range(VECTORS)]
            return [[code.multiply_add(ones, b, sum_) for b, sum_ in zip(vectors, sums[0], strict=True)]]

        (sums,) = code.loop(I64(0), arguments[2], 1, [[code.zero] * VECTORS], body)[1]
        for place, sum_ in enumerate(sums):
            old = code.load(to, place * nbytes)
            code.store(builder.add(builder.mul(sum_, factor), old), to, place * nbytes)
        return context.get_dummy_value()

    return types.void(types.intp, types.intp, types.intp), generate
