"""Copy kernel a = b: memory bandwidth without arithmetic."""

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
    """Bytes: one vector read, one written."""
    return 2 * shape.length * shape.itemsize


def exact(inner: int) -> float:
    """Tolerance: results must be equal."""
    return 0.0


SPEC = Spec[Shape](name="copy", operations=operations, nbytes=nbytes, tolerance=exact)
