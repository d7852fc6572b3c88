"""The copy a = b: what memory gives and takes where nothing is computed, as much as it is given."""

from dataclasses import dataclass

from ..spec import Spec


@dataclass(frozen=True)
class Shape:
    """Vectors of `length` numbers of `itemsize` bytes."""

    length: int
    itemsize: int = 8


def operations(shape: Shape) -> int:
    """FLOP: none."""
    return 0


def nbytes(shape: Shape, direction: str = "", dtype: str = "fp64") -> int:
    """Bytes: a vector is read and one is written."""
    return 2 * shape.length * shape.itemsize


def exact(inner: int) -> float:
    """No difference is allowed."""
    return 0.0


SPEC = Spec[Shape](name="copy", operations=operations, nbytes=nbytes, tolerance=exact)
