"""Matrix product as a dense layer computes it: y = x . w^T for a batch of rows, and its two gradients."""

from dataclasses import dataclass

from ..spec import FORWARD, INPUT_GRADIENT, WEIGHT_GRADIENT, Spec, fp32_tolerance, layer_nbytes
from ..spec import Shape as _Shape


@dataclass(frozen=True)
class Shape(_Shape):
    """x is batch x features, w is outputs x features (as torch's Linear stores it), y is batch x outputs."""

    features: int
    outputs: int

    @property
    def x(self) -> tuple[int, int]:
        """Dimensions of the input."""
        return self.batch, self.features

    @property
    def w(self) -> tuple[int, int]:
        """Dimensions of the weights."""
        return self.outputs, self.features

    @property
    def y(self) -> tuple[int, int]:
        """Dimensions of the output."""
        return self.batch, self.outputs

    def inner(self, direction: str) -> int:
        """Terms of one element: features, outputs or rows."""
        if direction == FORWARD:
            return self.features
        return self.outputs if direction == INPUT_GRADIENT else self.batch

    def text(self, direction: str) -> str:
        """m x k by k x n, as the direction multiplies them."""
        m, n, k = {
            FORWARD: (self.batch, self.outputs, self.features),
            INPUT_GRADIENT: (self.batch, self.features, self.outputs),
            WEIGHT_GRADIENT: (self.outputs, self.features, self.batch),
        }[direction]
        return f"m{m} n{n} k{k}"


def operations(shape: Shape) -> int:
    """FLOP of one direction; all three are equal. 1 multiply-add = 2."""
    return 2 * shape.batch * shape.features * shape.outputs


SPEC = Spec[Shape](name="gemm", operations=operations, nbytes=layer_nbytes, tolerance=fp32_tolerance)
