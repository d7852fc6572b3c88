"""Matrix product of int8 with exact int32 sums, by the dot-product instruction or in fp32."""

from typing import Any

import numpy as np

from ...cpu.blocking import block_sizes, largest_part, partition, row_pitch
from ...cpu.compiled import compiled
from ...cpu.function_pointer import call_pointer, function_pointer
from ...cpu.macrokernel import NO_PREFETCH, PackedA, multiply_block, sliver_width
from ...cpu.packing import Matrix, add_matrix, clear_run, scale, submatrix
from ...cpu.parallel import parallel_for
from ...cpu.simd import ROWS
from ...cpu.workspace import workspace
from .int8_packing import WORD, pack_byte_rows, pack_byte_slivers, take_off_sums

_pitch, _part_size = compiled(row_pitch), compiled(largest_part)


def multiply_bytes(a: Matrix, b: Matrix, c: Matrix, threads: int) -> None:
    """Compute C = A B of int8 matrices in int32."""
    sizes = block_sizes(WORD)
    parts = partition(threads, c.rows, c.columns, a.columns // 4 + 1, WORD, False)
    nbytes = sizes.nbytes + -(-sizes.columns * WORD // 64) * 64
    memory = workspace(threads * nbytes)
    pointer = function_pointer(_multiply_bytes, a, b, c, memory, sizes)
    _multiply_bytes_on_threads(pointer, parts, a, b, c, memory, nbytes, sizes)


@compiled
def _multiply_bytes_on_threads(
    pointer: Any, parts: Any, a: Any, b: Any, c: Any, memory: Any, nbytes: Any, sizes: Any
) -> None:
    parallel_for(_multiply_bytes_part, parts.rows * parts.columns, (pointer, parts, a, b, c, memory, nbytes, sizes))


@compiled
def _multiply_bytes_part(
    thread: Any, pointer: Any, parts: Any, a: Any, b: Any, c: Any, memory: Any, nbytes: Any, sizes: Any
) -> None:
    tall, wide = _part_size(c.rows, parts.rows, ROWS), _part_size(c.columns, parts.columns, sliver_width(np.int32(0)))
    row, column = thread // parts.columns * tall, thread % parts.columns * wide
    if row < c.rows and column < c.columns:
        left, right = submatrix(a, row, 0, tall, a.columns), submatrix(b, 0, column, b.rows, wide)
        into = submatrix(c, row, column, tall, wide)
        call_pointer(_multiply_bytes, pointer, (left, right, into, memory + thread * nbytes, sizes))


@compiled
def _multiply_bytes(a: Any, b: Any, c: Any, memory: Any, sizes: Any) -> None:
    """Compute C = A B by one thread; 128 times the column sums of B lie behind the packed blocks."""
    zero, sums, width = np.int32(0), memory + sizes.nbytes, sliver_width(np.int32(0))
    if a.columns == 0:
        scale(zero, c)
    for column in range(0, c.columns, sizes.columns):
        clear_run(zero, sums, min(sizes.columns, c.columns - column))
        for step in range(0, a.columns, sizes.steps * WORD):
            right = submatrix(b, step, column, sizes.steps * WORD, sizes.columns)
            pack_byte_slivers(memory, right)
            words = (right.rows + WORD - 1) // WORD
            for place in range(0, right.columns, width):
                take_off_sums(sums + place * WORD, memory + place * words * WORD, words)
            for row in range(0, c.rows, sizes.rows):
                block_of_a = submatrix(a, row, step, sizes.rows, sizes.steps * WORD)
                pack_byte_rows(memory + sizes.packed_a, _pitch(words, WORD), block_of_a)
                left = PackedA(memory + sizes.packed_a, _pitch(words, WORD), block_of_a.rows, 0, 0, False)
                block = submatrix(c, row, column, sizes.rows, sizes.columns)
                multiply_block(zero, left, memory, words, block, step > 0, memory + sizes.scratch, NO_PREFETCH)
        whole = submatrix(c, 0, column, c.rows, sizes.columns)
        add_matrix(zero, whole, Matrix(sums, whole.rows, whole.columns, 0, WORD))
