"""Causal attention of heads, fused: softmax(scale Q K^T) V of each place and those before it, and its gradients.

Vaswani et al., Attention Is All You Need, 2017, section 3.2.1, with the mask of section 3.2.3. The scores are never
stored: tiles of them stay in the cache, with a running maximum and sum of each row (Milakov and Gimelshein, Online
normalizer calculation for softmax, 2018), and are computed again for the gradients (Dao et al., FlashAttention, 2022,
algorithms 1 and 4). Arrays are [batch, heads, places, features].
"""

from dataclasses import dataclass
from math import log2, sqrt
from typing import NamedTuple

from ..arithmetic import BYTES
from ..spec import DTYPES, FORWARD, Float32, Spec, fp32_tolerance

BACKWARD = "backward"  # the gradients of queries, keys and values together
PASSES = FORWARD, BACKWARD
LOG2_E = log2(2.718281828459045)
MULTIPLE = 64  # of which the features of a head are one


@dataclass(frozen=True)
class Shape:
    """`heads` heads of each of `batch` sequences of `places` places, with `features` numbers a place and head."""

    batch: int
    heads: int
    places: int
    features: int = 64

    @property
    def size(self) -> tuple[int, int, int, int]:
        """Dimensions of queries, keys, values, the output, and of their gradients."""
        return self.batch, self.heads, self.places, self.features

    @property
    def scale(self) -> float:
        """Factor of the products of queries and keys."""
        return 1.0 / sqrt(self.features)

    def result(self, direction: str) -> tuple[int, ...]:
        """Dimensions of a pass's result: the output, or the three gradients one after the other."""
        return self.size if direction == FORWARD else (3, *self.size)

    def text(self, direction: str) -> str:
        """The dimensions as printed; equal for equal products."""
        return f"n{self.batch} h{self.heads} s{self.places} d{self.features}"


class Tensors(NamedTuple):
    """Queries, keys, values, and the gradient of the output."""

    q: Float32
    k: Float32
    v: Float32
    g: Float32


def operations(shape: Shape, direction: str = FORWARD) -> int:
    """FLOP of a pass: both products of the half that is not masked; backward twice those. 1 multiply-add = 2.

    What the backward pass computes again counts 0, as do exponentials.
    """
    pairs = shape.places * (shape.places + 1) // 2
    forward = 2 * 2 * shape.batch * shape.heads * pairs * shape.features
    return forward if direction == FORWARD else 2 * forward


def nbytes(shape: Shape, direction: str = FORWARD, dtype: str = "fp32") -> int:
    """Bytes of operands and results, each once; backward reads the output as well."""
    elements = shape.batch * shape.heads * shape.places * shape.features
    return (4 if direction == FORWARD else 8) * elements * BYTES[DTYPES[dtype].operand]


SPEC = Spec[Shape](name="attention", operations=operations, nbytes=nbytes, tolerance=fp32_tolerance)
