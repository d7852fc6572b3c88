"""Causal attention of heads, fused: softmax(scale Q K^T) V of each place and those before it, and its gradients.

Vaswani et al., Attention Is All You Need, 2017, section 3.2.1, with the mask of section 3.2.3. The scores are never
stored: tiles of them stay in the cache, with a running maximum and sum of each row (Milakov and Gimelshein, Online
normalizer calculation for softmax, 2018), and are computed again for the gradients (Dao et al., FlashAttention, 2022,
algorithms 1 and 4).

As a layer (spec.Shape) it has no weights: x are queries, keys and values one after the other, [3, batch, heads, places,
features], y and its gradient are [batch, heads, places, features].
"""

from dataclasses import dataclass
from math import e, log2, sqrt

from ..arithmetic import BYTES
from ..spec import DTYPES, FORWARD, INPUT_GRADIENT, Spec, fp32_tolerance
from ..spec import Shape as _Shape

PASSES = FORWARD, INPUT_GRADIENT
LOG2_E = log2(e)
MULTIPLE = 64  # of which the features of a head are one


@dataclass(frozen=True)
class Shape(_Shape):
    """`heads` heads of each of `batch` sequences of `places` places, with `features` numbers a place and head."""

    heads: int
    places: int
    features: int = 64

    @property
    def x(self) -> tuple[int, int, int, int, int]:
        """Dimensions of queries, keys and values together, and of their gradients."""
        return 3, *self.y

    @property
    def w(self) -> tuple[int]:
        """No weights."""
        return (0,)

    @property
    def y(self) -> tuple[int, int, int, int]:
        """Dimensions of queries, of keys, of values, and of the output."""
        return self.batch, self.heads, self.places, self.features

    @property
    def scale(self) -> float:
        """Factor of the products of queries and keys."""
        return 1.0 / sqrt(self.features)

    def inner(self, direction: str) -> int:
        """Terms of the longest sum: over all places."""
        return self.places

    def text(self, direction: str) -> str:
        """The dimensions as printed."""
        return f"n{self.batch} h{self.heads} s{self.places} d{self.features}"


def operations(shape: Shape) -> int:
    """FLOP of the forward pass: both products of the half that is not masked. 1 multiply-add = 2; exponentials 0."""
    return 2 * 2 * shape.batch * shape.heads * (shape.places * (shape.places + 1) // 2) * shape.features


def nbytes(shape: Shape, direction: str = FORWARD, dtype: str = "fp32") -> int:
    """Bytes of operands and results, each once; backward reads x, the output and its gradient."""
    of_x, _, of_y = shape.elements
    return (of_x + of_y + (direction == INPUT_GRADIENT) * (of_x + of_y)) * BYTES[DTYPES[dtype].operand]


# Backward has four products of that half; what it computes again does not count.
MULTIPLES = ((INPUT_GRADIENT, 2),)
SPEC = Spec[Shape]("attention", operations, nbytes, fp32_tolerance, MULTIPLES)


def check(shape: Shape) -> None:
    """ValueError unless there is a custom kernel for the shape."""
    if shape.features % MULTIPLE or min(shape.y) < 1:
        raise ValueError(f"attention of {shape.y}; allowed: heads of multiples of {MULTIPLE} features")
