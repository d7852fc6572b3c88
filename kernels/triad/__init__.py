"""The triad a = b + s c: what memory gives and takes. Source: McCalpin, STREAM, 1991-2007, whose bytes are counted."""

from dataclasses import dataclass
from typing import NamedTuple

from ..spec import Float64, Spec, fp32_tolerance

S = 3.0
TERMS = 2  # of an element


@dataclass(frozen=True)
class Shape:
    """Vectors of `length` numbers of `itemsize` bytes."""

    length: int
    itemsize: int = 8


class Vectors(NamedTuple):
    """What is read."""

    b: Float64
    c: Float64


def operations(shape: Shape) -> int:
    """FLOP: a multiplication and an addition an element."""
    return 2 * shape.length


def nbytes(shape: Shape, direction: str = "", dtype: str = "fp64") -> int:
    """Bytes: two vectors are read and one is written; what a cache reads of it before is not counted."""
    return 3 * shape.length * shape.itemsize


SPEC = Spec[Shape](name="triad", operations=operations, nbytes=nbytes, tolerance=fp32_tolerance)
