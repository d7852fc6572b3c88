"""Matrices in memory, as loops in Numba see them, and how their parts are packed for a tile and put back after it."""

from typing import Any, NamedTuple

from .compiled import compiled
from .load_store import add_number, add_vector, bytes_of, clear, copy_some, copy_vector, read, transpose_block, write
from .simd import OWN

LINE = OWN.nbytes
TOGETHER = 8  # rows that are read side by side


class Matrix(NamedTuple):
    """Numbers somewhere in memory: the first one's address, and the bytes to the next row and to the next column."""

    address: int
    rows: int
    columns: int
    down: int
    right: int


@compiled
def part(whole: Any, row: Any, column: Any, rows: Any, columns: Any) -> Any:
    """The part of a matrix from a row and a column on, of so many rows and columns where there are as many."""
    address = whole.address + row * whole.down + column * whole.right
    return Matrix(address, min(rows, whole.rows - row), min(columns, whole.columns - column), whole.down, whole.right)


@compiled
def turned(whole: Any) -> Any:
    """The transpose of a matrix, in the same memory."""
    return Matrix(whole.address, whole.columns, whole.rows, whole.right, whole.down)


@compiled
def pack_slivers(like: Any, target: Any, width: Any, matrix: Any, steps: Any) -> None:
    """The columns of a matrix in slivers of `width`: of each its numbers of the first row, of the second, ...

    A sliver has room for `steps` rows, which may be more than these.
    """
    size = bytes_of(like)
    if matrix.right == size:
        # a sliver's last vector may reach into the next one, which then has to come after it
        together = TOGETHER if width % (LINE // size) == 0 else max(1, matrix.rows)
        for row in range(0, matrix.rows, together):
            rows = part(matrix, row, 0, together, matrix.columns)
            _copy_slivers(like, target + row * width * size, width, rows, steps)
        return
    for column in range(0, matrix.columns, width):
        sliver = part(matrix, 0, column, matrix.rows, width)
        to = target + column * steps * size
        if matrix.down == size:
            _turn_sliver(like, to, width, sliver)
        else:
            _gather_sliver(like, to, width, sliver, 0, 0)


@compiled
def _copy_slivers(like: Any, target: Any, width: Any, rows: Any, steps: Any) -> None:
    """Some rows, each in one piece, to all slivers: so many places are read side by side as there are rows."""
    size = bytes_of(like)
    for column in range(0, rows.columns, width):
        sliver = part(rows, 0, column, rows.rows, width)
        _copy_sliver(like, target + column * steps * size, width, sliver, rows.columns - column)


@compiled
def _copy_sliver(like: Any, target: Any, width: Any, sliver: Any, columns: Any) -> None:
    """Rows lie in one piece, of `columns` numbers. What a last vector has beyond `width`, the first ones write over."""
    size = bytes_of(like)
    lanes = LINE // size
    whole = columns // lanes * lanes
    for place in range((width - 1) // lanes * lanes, -1, -lanes):
        to, source = target + place * size, sliver.address + place * size
        if place < whole:
            for row in range(sliver.rows):
                copy_vector(like, to + row * width * size, source + row * sliver.down)
        else:
            for row in range(sliver.rows):
                copy_some(like, to + row * width * size, source + row * sliver.down, max(0, columns - place))


@compiled
def _turn_sliver(like: Any, target: Any, width: Any, sliver: Any) -> None:
    """Columns lie in one piece: squares of them are transposed in registers."""
    size = bytes_of(like)
    lanes = LINE // size
    rows, columns = sliver.rows // lanes * lanes, sliver.columns // lanes * lanes
    for place in range(0, columns, lanes):
        for row in range(0, rows, lanes):
            source = sliver.address + place * sliver.right + row * size
            transpose_block(like, target + (row * width + place) * size, width * size, source, sliver.right)
    _gather_sliver(like, target, width, sliver, rows, columns)


@compiled
def _gather_sliver(like: Any, target: Any, width: Any, sliver: Any, rows: Any, columns: Any) -> None:
    """Number by number, but for the first `rows` of the first `columns`, which are there already."""
    size = bytes_of(like)
    for place in range(width):
        for row in range(rows if place < columns else 0, sliver.rows):
            to = target + (row * width + place) * size
            if place < sliver.columns:
                write(read(like, sliver.address + row * sliver.down + place * sliver.right), to)
            else:
                clear(like, to)


@compiled
def pack_rows(like: Any, target: Any, pitch: Any, matrix: Any, rows: Any) -> None:
    """The rows of a matrix, each in one piece, `pitch` bytes apart, and zeros after them: `rows` in all."""
    size = bytes_of(like)
    lanes = LINE // size
    whole = matrix.columns // lanes * lanes
    for first in range(0, matrix.rows, TOGETHER):
        last = min(first + TOGETHER, matrix.rows)
        for place in range(0, whole, lanes):
            for row in range(first, last):
                source = matrix.address + row * matrix.down + place * size
                copy_vector(like, target + row * pitch + place * size, source)
        for row in range(first, last):
            source = matrix.address + row * matrix.down + whole * size
            copy_run(like, target + row * pitch + whole * size, source, matrix.columns - whole)
    for row in range(matrix.rows, rows):
        clear_run(like, target + row * pitch, matrix.columns)


@compiled
def copy_run(like: Any, target: Any, source: Any, count: Any) -> None:
    """Numbers side by side; up to a vector's end zeros are written after them."""
    size = bytes_of(like)
    lanes = LINE // size
    whole = count // lanes * lanes
    for place in range(0, whole, lanes):
        copy_vector(like, target + place * size, source + place * size)
    if whole < count:
        copy_some(like, target + whole * size, source + whole * size, count - whole)


@compiled
def clear_run(like: Any, target: Any, count: Any) -> None:
    """Zeros side by side, up to a vector's end."""
    size = bytes_of(like)
    for place in range(0, count, LINE // size):
        copy_some(like, target + place * size, target, 0)


@compiled
def merge(like: Any, tile: Any, width: Any, matrix: Any, add: Any) -> None:
    """Bring part of a tile to where it belongs, or add it to what is there."""
    size = bytes_of(like)
    there = Matrix(tile, matrix.rows, matrix.columns, width * size, size)
    if add:
        add_to(like, matrix, there)
        return
    lanes = LINE // size
    whole = matrix.columns // lanes * lanes if matrix.right == size else 0
    for row in range(matrix.rows):
        for column in range(0, whole, lanes):
            place = matrix.address + row * matrix.down + column * size
            copy_vector(like, place, tile + (row * width + column) * size)
        for column in range(whole, matrix.columns):
            number = read(like, tile + (row * width + column) * size)
            write(number, matrix.address + row * matrix.down + column * matrix.right)


@compiled
def add_to(like: Any, target: Any, source: Any) -> None:
    """Add one matrix to another."""
    size = bytes_of(like)
    lanes = LINE // size
    for row in range(target.rows):
        to, come = target.address + row * target.down, source.address + row * source.down
        whole = target.columns // lanes * lanes if target.right == size == source.right else 0
        for column in range(0, whole, lanes):
            add_vector(like, to + column * size, come + column * size)
        for column in range(whole, target.columns):
            add_number(like, to + column * target.right, come + column * source.right)


@compiled
def scale(factor: Any, matrix: Any) -> None:
    """Multiply a matrix; where the factor is 0 the matrix is not read."""
    for row in range(matrix.rows):
        for column in range(matrix.columns):
            place = matrix.address + row * matrix.down + column * matrix.right
            if factor != 0:
                write(factor * read(factor, place), place)
            else:
                clear(factor, place)
