"""Matrices in memory, and packing of their parts for the micro-kernel.

A sliver is a packed part of B: `width` numbers a step, one step after the other, padded with zeros.
"""

from typing import Any, NamedTuple

from .compiled import compiled
from .load_store import add_number, add_vector, bytes_of, clear, copy_masked, copy_vector, read, transpose_block, write
from .simd import HOST

LINE = HOST.nbytes
ROWS_AT_ONCE = 8  # rows that are copied at a time


class Matrix(NamedTuple):
    """A strided matrix: address of the first number, and bytes from row to row and from column to column."""

    address: int
    rows: int
    columns: int
    row_stride: int
    column_stride: int


@compiled
def submatrix(whole: Any, row: Any, column: Any, rows: Any, columns: Any) -> Any:
    """Part of a matrix from a row and a column on; fewer than `rows` x `columns` at the border."""
    address = whole.address + row * whole.row_stride + column * whole.column_stride
    return Matrix(
        address,
        min(rows, whole.rows - row),
        min(columns, whole.columns - column),
        whole.row_stride,
        whole.column_stride,
    )


@compiled
def transposed(whole: Any) -> Any:
    """The transpose of a matrix, in the same memory."""
    return Matrix(whole.address, whole.columns, whole.rows, whole.column_stride, whole.row_stride)


@compiled
def pack_slivers(like: Any, target: Any, width: Any, matrix: Any, steps: Any) -> None:
    """Pack the columns of a matrix into slivers of `width`, row by row.

    A sliver has room for `steps` rows, which may be more than the matrix has.
    """
    size = bytes_of(like)
    if matrix.column_stride == size:
        # the last vector of a sliver may reach into the next sliver, which must then be packed later
        together = ROWS_AT_ONCE if width % (LINE // size) == 0 else max(1, matrix.rows)
        for row in range(0, matrix.rows, together):
            rows = submatrix(matrix, row, 0, together, matrix.columns)
            _copy_slivers(like, target + row * width * size, width, rows, steps)
        return
    for column in range(0, matrix.columns, width):
        sliver = submatrix(matrix, 0, column, matrix.rows, width)
        to = target + column * steps * size
        if matrix.row_stride == size:
            _transpose_sliver(like, to, width, sliver)
        else:
            _pack_sliver_by_number(like, to, width, sliver, 0, 0)


@compiled
def _copy_slivers(like: Any, target: Any, width: Any, rows: Any, steps: Any) -> None:
    """Copy some contiguous rows into all slivers, which reads several streams at once."""
    size = bytes_of(like)
    for column in range(0, rows.columns, width):
        sliver = submatrix(rows, 0, column, rows.rows, width)
        _copy_sliver(like, target + column * steps * size, width, sliver, rows.columns - column)


@compiled
def _copy_sliver(like: Any, target: Any, width: Any, sliver: Any, columns: Any) -> None:
    """Copy contiguous rows of `columns` numbers; later vectors first, as a last vector may reach beyond `width`."""
    size = bytes_of(like)
    lanes = LINE // size
    whole = columns // lanes * lanes
    for place in range((width - 1) // lanes * lanes, -1, -lanes):
        to, source = target + place * size, sliver.address + place * size
        if place < whole:
            for row in range(sliver.rows):
                copy_vector(like, to + row * width * size, source + row * sliver.row_stride)
        else:
            for row in range(sliver.rows):
                copy_masked(like, to + row * width * size, source + row * sliver.row_stride, max(0, columns - place))


@compiled
def _transpose_sliver(like: Any, target: Any, width: Any, sliver: Any) -> None:
    """Pack contiguous columns: square blocks are transposed in registers."""
    size = bytes_of(like)
    lanes = LINE // size
    rows, columns = sliver.rows // lanes * lanes, sliver.columns // lanes * lanes
    for place in range(0, columns, lanes):
        for row in range(0, rows, lanes):
            source = sliver.address + place * sliver.column_stride + row * size
            transpose_block(like, target + (row * width + place) * size, width * size, source, sliver.column_stride)
    _pack_sliver_by_number(like, target, width, sliver, rows, columns)


@compiled
def _pack_sliver_by_number(like: Any, target: Any, width: Any, sliver: Any, rows: Any, columns: Any) -> None:
    """Pack number by number, except the first `rows` of the first `columns`, which are packed already."""
    size = bytes_of(like)
    for place in range(width):
        for row in range(rows if place < columns else 0, sliver.rows):
            to = target + (row * width + place) * size
            if place < sliver.columns:
                write(read(like, sliver.address + row * sliver.row_stride + place * sliver.column_stride), to)
            else:
                clear(like, to)


@compiled
def pack_rows(like: Any, target: Any, pitch: Any, matrix: Any, rows: Any) -> None:
    """Pack rows contiguously, `pitch` bytes apart, padded with zero rows to `rows`."""
    size = bytes_of(like)
    lanes = LINE // size
    whole = matrix.columns // lanes * lanes
    for first in range(0, matrix.rows, ROWS_AT_ONCE):
        last = min(first + ROWS_AT_ONCE, matrix.rows)
        for place in range(0, whole, lanes):
            for row in range(first, last):
                source = matrix.address + row * matrix.row_stride + place * size
                copy_vector(like, target + row * pitch + place * size, source)
        for row in range(first, last):
            source = matrix.address + row * matrix.row_stride + whole * size
            copy_run(like, target + row * pitch + whole * size, source, matrix.columns - whole)
    for row in range(matrix.rows, rows):
        clear_run(like, target + row * pitch, matrix.columns)


@compiled
def copy_run(like: Any, target: Any, source: Any, count: Any) -> None:
    """Copy `count` contiguous numbers and store zeros up to the end of the vector."""
    size = bytes_of(like)
    lanes = LINE // size
    whole = count // lanes * lanes
    for place in range(0, whole, lanes):
        copy_vector(like, target + place * size, source + place * size)
    if whole < count:
        copy_masked(like, target + whole * size, source + whole * size, count - whole)


@compiled
def clear_run(like: Any, target: Any, count: Any) -> None:
    """Store `count` contiguous zeros, up to the end of the vector."""
    size = bytes_of(like)
    for place in range(0, count, LINE // size):
        copy_masked(like, target + place * size, target, 0)


@compiled
def store_tile(like: Any, tile: Any, width: Any, matrix: Any, add: Any) -> None:
    """Store part of a tile in a matrix, or add it."""
    size = bytes_of(like)
    there = Matrix(tile, matrix.rows, matrix.columns, width * size, size)
    if add:
        add_matrix(like, matrix, there)
        return
    lanes = LINE // size
    whole = matrix.columns // lanes * lanes if matrix.column_stride == size else 0
    for row in range(matrix.rows):
        for column in range(0, whole, lanes):
            place = matrix.address + row * matrix.row_stride + column * size
            copy_vector(like, place, tile + (row * width + column) * size)
        for column in range(whole, matrix.columns):
            number = read(like, tile + (row * width + column) * size)
            write(number, matrix.address + row * matrix.row_stride + column * matrix.column_stride)


@compiled
def add_matrix(like: Any, target: Any, source: Any) -> None:
    """Add one matrix to another."""
    size = bytes_of(like)
    lanes = LINE // size
    for row in range(target.rows):
        to, come = target.address + row * target.row_stride, source.address + row * source.row_stride
        whole = target.columns // lanes * lanes if target.column_stride == size == source.column_stride else 0
        for column in range(0, whole, lanes):
            add_vector(like, to + column * size, come + column * size)
        for column in range(whole, target.columns):
            add_number(like, to + column * target.column_stride, come + column * source.column_stride)


@compiled
def scale(factor: Any, matrix: Any) -> None:
    """Multiply a matrix by a factor; with factor 0 the matrix is not read."""
    for row in range(matrix.rows):
        for column in range(matrix.columns):
            place = matrix.address + row * matrix.row_stride + column * matrix.column_stride
            if factor != 0:
                write(factor * read(factor, place), place)
            else:
                clear(factor, place)
