"""RMS norm of rows: each divided by its root mean square and multiplied by weights, and its gradients.

Zhang and Sennrich, Root Mean Square Layer Normalization, 2019, equation 4, with eps added to the mean square: y = w r x
with r = 1 / sqrt(mean of x^2 + eps). Arrays are [rows, features].
"""

from dataclasses import dataclass

from ..spec import FORWARD, Spec, fp32_tolerance

BACKWARD = "backward"


@dataclass(frozen=True)
class Shape:
    """Rows, and numbers of a row."""

    rows: int
    features: int

    @property
    def text(self) -> str:
        """As printed."""
        return f"rows{self.rows} features{self.features}"


def operations(shape: Shape, direction: str = FORWARD) -> int:
    """Operations: forward squares (2) and two products (2); backward mean (3), gradient (4) and that of weights (3)."""
    return (4 if direction == FORWARD else 10) * shape.rows * shape.features


def nbytes(shape: Shape, direction: str = FORWARD, dtype: str = "fp32") -> int:
    """Bytes: rows read and written; backward two read and one written."""
    return {"fp32": 4, "fp64": 8}[dtype] * (2 if direction == FORWARD else 3) * shape.rows * shape.features


SPEC = Spec[Shape](name="rms_norm", operations=operations, nbytes=nbytes, tolerance=fp32_tolerance)
