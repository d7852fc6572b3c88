"""A convolution that is a matrix product: 1 x 1 taps that take every pixel, with the plan of the blocked product."""

from typing import Any

from ...cpu.blocking import BlockSizes, Partition
from ...cpu.compiled import compiled
from ...cpu.epilogue import NONE
from ...cpu.function_pointer import FunctionPointer, call_pointer, function_pointer
from ...cpu.packing import Matrix
from ...cpu.split_k import reduce_partial_sums
from ...cpu.stored_arguments import Stored, reading
from ...gemm.cpu.blocked import blocking, multiply_on_threads, multiply_serially
from .computation import Computation

Order = tuple[int, int, int]  # which of source, weights and target are A, B and C


def plan_matrix_product(
    a: Matrix, b: Matrix, c: Matrix, order: Order, one: Any, threads: int, split_k: bool
) -> Computation:
    """C = A B of matrices given by offset; split_k: threads may share the steps of a sum, without an epilogue."""
    parts, sizes, packed, nbytes = blocking(a, c, one.itemsize, threads, split_k)
    pointer = function_pointer(multiply_serially, one, one, a, b, c, 0, sizes, NONE, 0)
    plan = Stored(a, b, c, *order, parts, sizes, pointer, packed)
    return Computation(_compute, one, plan, threads, nbytes)


_read_stored = reading(Matrix, Matrix, Matrix, int, int, int, Partition, BlockSizes, FunctionPointer, int)


@compiled
def _compute(
    like: Any, stored: Any, threads: Any, source: Any, weights: Any, target: Any, memory: Any, epilogue: Any
) -> None:
    a, b, c, of_a, of_b, of_c, parts, sizes, pointer, packed = _read_stored(stored)
    arrays, zero = (source, weights, target), like - like
    left, right, into = _shifted(a, arrays[of_a]), _shifted(b, arrays[of_b]), _shifted(c, arrays[of_c])
    if threads == 1:
        arguments = (like, zero, left, right, into, memory, sizes, epilogue, 0)
        call_pointer(multiply_serially, pointer, arguments)
    else:
        multiply_on_threads(
            pointer, parts, like, zero, left, right, into, memory, memory + packed, sizes, epilogue
        )
        if parts.steps > 1:
            reduce_partial_sums(parts, like, into, memory + packed)


@compiled
def _shifted(matrix: Any, offset: Any) -> Any:
    return Matrix(matrix.address + offset, matrix.rows, matrix.columns, matrix.row_stride, matrix.column_stride)
