"""The triad a = b + s c: what memory gives and takes. Source: McCalpin, STREAM, 1991-2007, whose bytes are counted."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Shape:
    """Vectors of `length` numbers of `itemsize` bytes."""

    length: int
    itemsize: int = 8


def operations(shape: Shape) -> int:
    """FLOP: a multiplication and an addition an element."""
    return 2 * shape.length


def nbytes(shape: Shape) -> int:
    """Bytes: two vectors are read and one is written; what a cache reads of it before is not counted."""
    return 3 * shape.length * shape.itemsize
