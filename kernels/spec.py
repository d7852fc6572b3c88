"""The words all kernels share: shapes, the three products of a layer, a kernel's declared counts and tolerance."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

FORWARD = "forward"
INPUT_GRADIENT = "input_gradient"
WEIGHT_GRADIENT = "weight_gradient"
DIRECTIONS = (FORWARD, INPUT_GRADIENT, WEIGHT_GRADIENT)

# Largest relative error of one rounding to nearest in fp32; what dlamch('E'), HPL's eps, is for fp64 (2^-53).
UNIT_ROUNDOFF_FP32 = 2.0**-24


@dataclass(frozen=True)
class Arithmetic:
    """The types a product is made of: what its inputs are rounded to, what it is summed and its result is stored in.

    `unit` is the unit roundoff of the sums. `significand` are the bits of an input, the leading one included;
    `roundoff` is the largest relative error of storing a sum, 0 where it is stored as it was summed; `normal` the
    smallest number that keeps that precision. `stored` names the type of input and result, in torch and in NumPy where
    that has it.
    """

    name: str
    stored: str
    significand: int
    roundoff: float
    normal: float
    unit: float = UNIT_ROUNDOFF_FP32

    @property
    def eps(self) -> float:
        """Unit roundoff of the type that the result is known in: the accumulator's, or the stored type's if coarser."""
        return max(self.roundoff, self.unit)


FP64 = Arithmetic("fp64", "float64", 53, 0.0, 2.0**-1022, 2.0**-53)
FP32 = Arithmetic("fp32", "float32", 24, 0.0, 2.0**-126)
TF32 = Arithmetic("tf32", "float32", 11, 0.0, 2.0**-126)
FP16 = Arithmetic("fp16", "float16", 11, 2.0**-11, 2.0**-14)
BF16 = Arithmetic("bf16", "bfloat16", 8, 2.0**-8, 2.0**-126)
ARITHMETICS = {arithmetic.name: arithmetic for arithmetic in (FP64, FP32, TF32, FP16, BF16)}

Float32 = NDArray[np.float32]
Float64 = NDArray[np.float64]


@dataclass(frozen=True)
class Shape(ABC):
    """A layer applied to `batch` samples; extended by each kernel with the layer's own dimensions."""

    batch: int

    @property
    @abstractmethod
    def x(self) -> tuple[int, ...]:
        """Dimensions of the input."""

    @property
    @abstractmethod
    def w(self) -> tuple[int, ...]:
        """Dimensions of the weights."""

    @property
    @abstractmethod
    def y(self) -> tuple[int, ...]:
        """Dimensions of the output, and of its gradient."""

    def result(self, direction: str) -> tuple[int, ...]:
        """Dimensions of what that direction computes: y, dx or dw."""
        return {FORWARD: self.y, INPUT_GRADIENT: self.x, WEIGHT_GRADIENT: self.w}[direction]

    @abstractmethod
    def inner(self, direction: str) -> int:
        """Most terms that are summed into one element of that direction's product."""


S = TypeVar("S", bound=Shape)


@dataclass(frozen=True)
class Spec(Generic[S]):
    """What a kernel declares: FLOP of one direction, bytes of x, w and y in fp32, tolerance by inner dimension."""

    name: str
    operations: Callable[[S], int]
    nbytes: Callable[[S], int]
    tolerance: Callable[[int], float]


class Tensors(NamedTuple):
    """Input, weights and gradient of the output of one layer: fp32 arrays of values that the type has exactly."""

    x: Float32
    w: Float32
    g: Float32


class Block(NamedTuple):
    """Rows of a product under test: C (m x n) claims to be L (m x k) . R (k x n); L and R exact in float64."""

    L: Float64
    R: Float64
    C: Float64


def fp32_nbytes(shape: Shape) -> int:
    """Bytes of input, weights and output of a layer in fp32."""
    return 4 * sum(math.prod(size) for size in (shape.x, shape.w, shape.y))


def fp32_tolerance(inner: int) -> float:
    """Error allowed to a sum of `inner` products accumulated in fp32, relative to the root of its summed squares.

    Rounding errors add up like a random walk, so 8 * sqrt(inner) * u, not the worst case inner * u
    (Higham, Accuracy and Stability of Numerical Algorithms, section 2.8, for the rule of thumb). Direct sums stay
    near half of it. So does Winograd's F(2x2, 3x3); F(4x4, 3x3) exceeds it, 2 to 8 times, by its own arithmetic.
    """
    return 8.0 * math.sqrt(inner) * UNIT_ROUNDOFF_FP32
