"""Triad a = b + s c: memory bandwidth. Source: McCalpin, STREAM, 1991-2007; bytes are counted as STREAM does."""

from dataclasses import dataclass
from typing import NamedTuple

from ..spec import Float64, Spec, fp32_tolerance

S = 3.0
TERMS = 2  # of a sum


@dataclass(frozen=True)
class Shape:
    """Vectors of `length` numbers of `itemsize` bytes."""

    length: int
    itemsize: int = 8


class Vectors(NamedTuple):
    """The operands."""

    b: Float64
    c: Float64


def operations(shape: Shape) -> int:
    """Operations: one multiplication and one addition an element."""
    return 2 * shape.length


def nbytes(shape: Shape, direction: str = "", dtype: str = "fp64") -> int:
    """Bytes: two vectors read, one written; write-allocate traffic is not counted."""
    return 3 * shape.length * shape.itemsize


SPEC = Spec[Shape](name="triad", operations=operations, nbytes=nbytes, tolerance=fp32_tolerance)
