"""Blocked matrix product: the loops around the macro-kernel, which pack A and B for the caches and divide the work.

The loops are those of Goto and van de Geijn (ACM TOMS 34, 2008) and BLIS, with split-K where C alone is too small.
"""

from typing import Any, NamedTuple

from ...cpu.blocking import (
    CONFLICTING,
    BlockSizes,
    Partition,
    block_sizes_for,
    largest_part,
    partition,
    row_pitch,
)
from ...cpu.compiled import compiled
from ...cpu.epilogue import NONE, finish
from ...cpu.function_pointer import call_pointer, function_pointer
from ...cpu.load_store import bytes_of
from ...cpu.macrokernel import NO_PREFETCH, PackedA, Prefetch, multiply_block, sliver_width
from ...cpu.packing import Matrix, pack_rows, pack_slivers, scale, submatrix, transposed
from ...cpu.parallel import parallel_for
from ...cpu.simd import ROWS
from ...cpu.split_k import partial_sums, reduce_partial_sums
from ...cpu.workspace import workspace

FEW_SLIVERS = 2  # with no more slivers of B, packing rows of A does not pay
MOST_PREFETCHED = 2**19  # bytes to prefetch at most: half of an L2 cache
DOUBLE = (
    8  # bytes; rows of a tile of such numbers fill L1, so that A is packed into panels, which are read contiguously
)
_pitch, _part_size = compiled(row_pitch), compiled(largest_part)


class Blocking(NamedTuple):
    """Parts of the threads, sizes of blocks, and bytes of what is packed and of all memory, partial sums included."""

    parts: Partition
    sizes: BlockSizes
    packed: int
    nbytes: int


def blocking(a: Matrix, c: Matrix, size: int, threads: int, split_k: bool) -> Blocking:
    """How C = A B is divided, for numbers of `size` bytes; split_k: threads may share the steps of a sum."""
    parts = partition(threads, c.rows, c.columns, a.columns, size, split_k=split_k)
    sizes = block_sizes_for(size, c.rows // parts.rows, c.columns // parts.columns, a.columns // parts.steps)
    packed = parts.rows * parts.columns * parts.steps * sizes.nbytes
    return Blocking(parts, sizes, packed, packed + (parts.steps - 1) * c.rows * c.columns * size)


def multiply(
    alpha: Any, beta: Any, a: Matrix, b: Matrix, c: Matrix, threads: int, epilogue: int = NONE
) -> None:
    """Compute C = alpha A B + beta C, of matrices given by address; alpha and beta have their type.

    With an epilogue, rows of C are pixels, and the contiguous numbers of a row are channels.
    """
    parts, sizes, packed, nbytes = blocking(a, c, alpha.itemsize, threads, epilogue == NONE)
    memory = workspace(nbytes)
    if threads == 1:
        multiply_serially(alpha, beta, a, b, c, memory, sizes, epilogue, 0)
        return
    pointer = function_pointer(multiply_serially, alpha, beta, a, b, c, memory, sizes, NONE, 0)
    multiply_on_threads(pointer, parts, alpha, beta, a, b, c, memory, memory + packed, sizes, epilogue)
    if parts.steps > 1:
        reduce_partial_sums(parts, alpha, c, memory + packed)


@compiled
def multiply_on_threads(
    pointer: Any,
    parts: Any,
    alpha: Any,
    beta: Any,
    a: Any,
    b: Any,
    c: Any,
    memory: Any,
    sums: Any,
    sizes: Any,
    epilogue: Any,
) -> None:
    """Each thread computes a part of C and of the steps; split-K parts other than the first go to `sums`."""
    arguments = (pointer, parts, alpha, beta, a, b, c, memory, sums, sizes, epilogue)
    parallel_for(_multiply_part, parts.rows * parts.columns * parts.steps, arguments)


@compiled
def _multiply_part(
    thread: Any, pointer: Any, parts: Any, alpha: Any, beta: Any, a: Any, b: Any, c: Any, memory: Any, sums: Any,
    sizes: Any, epilogue: Any,
) -> None:
    tall, wide = _part_size(c.rows, parts.rows, ROWS), _part_size(c.columns, parts.columns, sliver_width(alpha))
    steps, split = _part_size(a.columns, parts.steps, 1), thread // (parts.rows * parts.columns)
    row, column = thread // parts.columns % parts.rows * tall, thread % parts.columns * wide
    if row < c.rows and column < c.columns:
        first = min(split * steps, a.columns)
        left, right = submatrix(a, row, first, tall, steps), submatrix(b, first, column, steps, wide)
        target = submatrix(partial_sums(alpha, c, sums, split), row, column, tall, wide)
        part_beta = alpha - alpha if split else beta
        thread_memory = memory + thread * sizes.nbytes
        call_pointer(
            multiply_serially, pointer, (alpha, part_beta, left, right, target, thread_memory, sizes, epilogue, column)
        )


@compiled
def multiply_serially(
    alpha: Any, beta: Any, a: Any, b: Any, c: Any, memory: Any, sizes: Any, epilogue: Any, first: Any
) -> None:
    """Compute C = alpha A B + beta C by one thread, which packs into `memory`; columns are channels from `first` on.
    """
    if a.columns == 0 or (beta != 0 and beta != 1):
        scale(beta, c)
    if a.columns == 0:
        finish(epilogue, c.address, c.rows, c.row_stride, first, c.columns)
    for column in range(0, c.columns, sizes.columns):
        for step in range(0, a.columns, sizes.steps):
            right = submatrix(b, step, column, sizes.steps, sizes.columns)
            pack_slivers(alpha, memory, sliver_width(alpha), right, right.rows)
            for row in range(0, c.rows, sizes.rows):
                block, add = submatrix(c, row, column, sizes.rows, sizes.columns), step > 0 or beta != 0
                block_of_a = submatrix(a, row, step, sizes.rows, sizes.steps)
                left = _pack_a(alpha, block_of_a, memory + sizes.packed_a, right.columns)
                prefetch = _prefetch(alpha, a, b, row, step, sizes)
                multiply_block(alpha, left, memory, right.rows, block, add, memory + sizes.scratch, prefetch)
                if step + sizes.steps >= a.columns:
                    finish(epilogue, block.address, block.rows, block.row_stride, first + column, block.columns)


@compiled
def _prefetch(like: Any, a: Any, b: Any, row: Any, step: Any, sizes: Any) -> Any:
    """Memory that the next block reads: the next rows of A, or the next steps of B and of a column-major A.

    Only where that is contiguous and small enough to stay in the cache.
    """
    size = bytes_of(like)
    if a.column_stride == size and a.row_stride == a.columns * size and a.columns <= sizes.steps:
        rows = max(0, min(sizes.rows, a.rows - row - sizes.rows))
        return Prefetch(a.address + (row + sizes.rows) * a.row_stride, min(rows * a.row_stride, MOST_PREFETCHED), 0, 0)
    following = step + sizes.steps
    count = max(0, min(sizes.steps, a.columns - following))
    if a.column_stride != a.rows * size or b.row_stride != b.columns * size or count * b.row_stride > MOST_PREFETCHED:
        return NO_PREFETCH
    rest = min(count * a.column_stride, MOST_PREFETCHED - count * b.row_stride)
    return Prefetch(
        b.address + following * b.row_stride,
        count * b.row_stride,
        a.address + following * a.column_stride,
        rest,
    )


@compiled
def _pack_a(alpha: Any, a: Any, target: Any, columns: Any) -> PackedA:
    """A block of A for the micro-kernel: in place, where its rows are contiguous and do not conflict in the cache."""
    size, few = bytes_of(alpha), columns <= FEW_SLIVERS * sliver_width(alpha)
    if a.column_stride != size or (size == DOUBLE and not few):
        pack_slivers(alpha, target, ROWS, transposed(a), a.columns)
        return PackedA(target, a.columns * size, a.rows, 0, 0, True)
    pitch, whole = _pitch(a.columns, size), a.rows // ROWS * ROWS
    if a.row_stride % CONFLICTING == 0 or (a.row_stride % (CONFLICTING // 2) == 0 and not few):
        pack_rows(alpha, target, pitch, a, (a.rows + ROWS - 1) // ROWS * ROWS)
        return PackedA(target, pitch, a.rows, 0, 0, False)
    if whole < a.rows:
        pack_rows(alpha, target, pitch, submatrix(a, whole, 0, ROWS, a.columns), ROWS)
    return PackedA(a.address, a.row_stride, whole, target, pitch, False)
