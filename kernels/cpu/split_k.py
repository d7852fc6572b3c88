"""Split-K reduction: partial sums in scratch buffers, added at the end. The first part is computed in place."""

from typing import Any

from .blocking import largest_part
from .compiled import compiled
from .load_store import bytes_of
from .packing import Matrix, add_matrix, submatrix
from .parallel import parallel_for

_part_size = compiled(largest_part)


@compiled
def partial_sums(like: Any, c: Any, layers: Any, number: Any) -> Any:
    """Buffer of part `number` of the sums of C; part 0 is C itself."""
    size = bytes_of(like)
    if number == 0:
        return c
    return Matrix(layers + (number - 1) * c.rows * c.columns * size, c.rows, c.columns, c.columns * size, size)


@compiled
def reduce_partial_sums(parts: Any, like: Any, c: Any, layers: Any) -> None:
    """Add all partial sums to C; threads divide the rows."""
    threads = parts.rows * parts.columns * parts.steps
    parallel_for(_add_rows, threads, (parts, like, c, layers, _part_size(c.rows, threads, 1)))


@compiled
def _add_rows(thread: Any, parts: Any, like: Any, c: Any, layers: Any, tall: Any) -> None:
    if thread * tall < c.rows:
        into = submatrix(c, thread * tall, 0, tall, c.columns)
        for number in range(1, parts.steps):
            add_matrix(like, into, submatrix(partial_sums(like, c, layers, number), thread * tall, 0, tall, c.columns))
