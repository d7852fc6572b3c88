"""Matrix product on CPUs in Numba: entry points of the blocked product."""

from typing import Any

import numpy as np

from ..arrays import poisoned, prepared
from ..cpu.packing import Matrix
from ..cpu.simd import HOST
from ..providers import Call, Prepared, Unavailable
from ..spec import DTYPES, FORWARD, INPUT_GRADIENT, WEIGHT_GRADIENT, Tensors, dtype_of
from . import Shape
from .cpu.blocked import multiply
from .cpu.int8 import multiply_bytes

PROVIDER = "custom"
DEVICES = ("cpu",)

EXACT_STEPS = 1024  # products of two int8 numbers whose sum fp32 holds exactly
TYPES = ("fp32", "fp64", "int8")


def gemm(a: Any, b: Any, c: Any, alpha: float = 1.0, beta: float = 0.0, threads: int = 1) -> None:
    """Compute C = alpha A B + beta C in place: float32 or float64 [m, k], [k, n] and [m, n], with any strides.

    C must not overlap A or B. With beta = 0, C is not read.
    """
    if c.strides[0] == c.itemsize != c.strides[1]:
        a, b, c = b.T, a.T, c.T
    multiply(c.dtype.type(alpha), c.dtype.type(beta), matrix(a), matrix(b), matrix(c), threads)


def gemm_bytes(a: Any, b: Any, c: Any, threads: int = 1) -> None:
    """Compute C = A B of int8 [m, k] and [k, n] with any strides, exactly in int32 [m, n] with contiguous rows."""
    if not HOST.multiplies_bytes:
        _multiply_by_floats(a, b, c, threads)
        return
    multiply_bytes(matrix(a), matrix(b), matrix(c), threads)


def _multiply_by_floats(a: Any, b: Any, c: Any, threads: int) -> None:
    """Compute C = A B in fp32, in parts whose sums are integers below 2^24 and therefore exact."""
    c[:] = 0
    part_of_c = np.empty(c.shape, np.float32)
    for first in range(0, a.shape[1], EXACT_STEPS):
        steps = slice(first, first + EXACT_STEPS)
        gemm(a[:, steps].astype(np.float32), b[steps].astype(np.float32), part_of_c, threads=threads)
        c += part_of_c.astype(np.int32)


def prepare(shape: Shape, direction: str, data: Tensors, device: str, threads: int) -> list[Prepared]:
    """The only variant. See `Prepared`. Unavailable for types that only GPUs multiply."""
    if dtype_of(data) not in TYPES:
        raise Unavailable(f"{dtype_of(data)} products in Numba; there are {', '.join(TYPES)}")
    kinds = DTYPES[dtype_of(data)]
    c, compute = poisoned(shape.result(direction), kinds.result), gemm_bytes if kinds.exact else gemm

    def bind(data: Tensors) -> Call:
        x, w, g = data
        a, b = {FORWARD: (x, w.T), INPUT_GRADIENT: (g, w), WEIGHT_GRADIENT: (g.T, x)}[direction]
        return lambda: compute(a, b, c, threads=threads)

    return [prepared(bind, data, c)]


def matrix(array: Any) -> Matrix:
    """Address, shape and strides of a two-dimensional array, which must not move."""
    return Matrix(array.ctypes.data, *array.shape, *array.strides)
