"""Common interface of kernels: shapes, a layer's three products, specification with counts and tolerance, types."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from .arithmetic import BF16, BYTES, FP16, FP32, TF32, UNIT_ROUNDOFF_FP32, Arithmetic

FORWARD = "forward"
INPUT_GRADIENT = "input_gradient"
WEIGHT_GRADIENT = "weight_gradient"
DIRECTIONS = (FORWARD, INPUT_GRADIENT, WEIGHT_GRADIENT)
# Operands of each direction, by their names in `Tensors`.
OPERANDS = {FORWARD: ("x", "w"), INPUT_GRADIENT: ("g", "w"), WEIGHT_GRADIENT: ("x", "g")}

Float32 = NDArray[np.float32]
Float64 = NDArray[np.float64]


@dataclass(frozen=True)
class Shape(ABC):
    """Shape of a layer on `batch` samples; each kernel adds the layer's own dimensions."""

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

    @property
    def elements(self) -> tuple[int, int, int]:
        """Elements of input, weights and output."""
        return math.prod(self.x), math.prod(self.w), math.prod(self.y)

    def result(self, direction: str) -> tuple[int, ...]:
        """Dimensions of a direction's result: y, dx or dw."""
        return {FORWARD: self.y, INPUT_GRADIENT: self.x, WEIGHT_GRADIENT: self.w}[direction]

    @abstractmethod
    def inner(self, direction: str) -> int:
        """Largest number of terms in an element of a direction's product."""

    @abstractmethod
    def text(self, direction: str) -> str:
        """The dimensions as printed; equal for equal products."""


S = TypeVar("S", bound=Shape)
T = TypeVar("T")


@dataclass(frozen=True)
class Spec(Generic[T]):
    """Specification of a kernel: operations of a direction, bytes moved, tolerance by inner dimension in fp32.

    nbytes(shape, direction, dtype) counts every operand once, in fp32 where no more is said.
    """

    name: str
    operations: Callable[[T], int] = field(repr=False)  # function addresses differ between processes
    nbytes: Callable[..., int] = field(repr=False)
    tolerance: Callable[[int], float] = field(repr=False)
    multiples: tuple[tuple[str, int], ...] = ()  # directions with so many times the operations of the others

    def operations_of(self, shape: T, direction: str) -> int:
        """Operations of a direction."""
        return dict(self.multiples).get(direction, 1) * self.operations(shape)


class Tensors(NamedTuple):
    """Input, weights and output gradient of a layer: fp32 arrays of values that are exact in the type."""

    x: Float32
    w: Float32
    g: Float32


class Tf32Tensors(Tensors):
    """Operands of tf32 products."""


class Fp16Tensors(Tensors):
    """Operands of fp16 products; a provider converts them, and its results to fp32."""


class Bf16Tensors(Tensors):
    """Operands of bf16 products, a type that NumPy lacks; a provider converts them, and its results to fp32."""


class Block(NamedTuple):
    """Rows of a product to check: C (m x n) should be L (m x k) . R (k x n); L and R are exact in float64."""

    L: Float64
    R: Float64
    C: Float64


class Compared(NamedTuple):
    """Elements of a result, their exact values, and the allowed differences."""

    C: Float64
    exact: Float64
    allowed: Float64


class Dtype(NamedTuple):
    """torch's names of the types of operands and result, and the unit roundoff of sums; 0 of whole numbers.

    They are NumPy's as well unless `held` says how such tensors are: arrays of fp32, of values that the type has.
    `cut`: terms of a sum of tensor cores, which is not rounded but cut off, so that errors do not cancel.
    `on_gpus`: measured on GPUs only, as nobody multiplies it on a CPU as tensor cores do.
    """

    operand: str
    result: str
    unit: float
    held: type[Tensors] = Tensors
    arithmetic: Arithmetic = FP32
    cut: bool = False
    on_gpus: bool = False

    @property
    def exact(self) -> bool:
        """Whether results are exact integers."""
        return self.unit == 0.0

    @property
    def nbytes(self) -> tuple[int, int]:
        """Bytes of an element of the operands, and of the result."""
        return BYTES[self.operand], BYTES[self.result]

    @property
    def array(self) -> str:
        """NumPy's type of the operand arrays on the host."""
        return self.operand if self.held is Tensors else "float32"

    @property
    def computed(self) -> str:
        """NumPy's type of the result arrays on the host."""
        return self.result if self.held is Tensors else "float32"


DTYPES = {
    "fp32": Dtype("float32", "float32", UNIT_ROUNDOFF_FP32),
    "fp64": Dtype("float64", "float64", 2.0**-53),
    "tf32": Dtype("float32", "float32", UNIT_ROUNDOFF_FP32, Tf32Tensors, TF32, cut=True, on_gpus=True),
    "fp16": Dtype("float16", "float16", UNIT_ROUNDOFF_FP32, Fp16Tensors, FP16, on_gpus=True),
    "bf16": Dtype("bfloat16", "bfloat16", UNIT_ROUNDOFF_FP32, Bf16Tensors, BF16, on_gpus=True),
    "int8": Dtype("int8", "int32", 0.0),
}


def dtype_of(data: Tensors) -> str:
    """The type of products of these operands, as named in DTYPES."""
    own = (name for name, each in DTYPES.items() if (each.held, each.array) == (type(data), data.x.dtype.name))
    return next(own)


def layer_nbytes(shape: Shape, direction: str = FORWARD, dtype: str = "fp32") -> int:
    """Bytes of the two operands and the result of a layer's direction."""
    operand, result = DTYPES[dtype].nbytes
    computed = math.prod(shape.result(direction))
    return (sum(shape.elements) - computed) * operand + computed * result


def fp32_tolerance(inner: int) -> float:
    """Allowed error of a sum of `inner` products accumulated in fp32, relative to the root of its summed squares.

    Rounding errors add up like a random walk, so 8 * sqrt(inner) * u, not the worst case inner * u
    (Higham, Accuracy and Stability of Numerical Algorithms, section 2.8, for the rule of thumb). Direct sums stay
    near half of it. So does Winograd's F(2x2, 3x3); F(4x4, 3x3) exceeds it, 2 to 8 times, by its own arithmetic.
    """
    return 8.0 * math.sqrt(inner) * UNIT_ROUNDOFF_FP32
