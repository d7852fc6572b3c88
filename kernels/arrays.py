"""Arrays of operands and results on the host: aligned as torch's, filled with what no product is, rounded to a type."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from .arithmetic import Arithmetic
from .providers import Prepared
from .spec import Float32

LINE = 64  # bytes of a line of the cache


def poisoned(size: tuple[int, ...], kind: str) -> Any:
    """An array of NaN or, of whole numbers, of the least one there is, which no product of bytes is."""
    array = _aligned(size, np.dtype(kind))
    array.fill(poison(kind))
    return array


def poison(kind: str) -> float:
    """NaN or, of whole numbers, the least one there is."""
    numbers = np.dtype(kind)
    return math.nan if numbers.kind == "f" else int(np.iinfo(numbers).min)


def prepared(call: Callable[[], Any], result: Any, lies_as: Callable[[Any], Any] | None = None) -> Prepared:
    """A product whose result is this array; `lies_as` gives it the order of dimensions that the reference has."""
    wrong = poison(result.dtype.name)
    return Prepared(call, lambda: lies_as(result) if lies_as else result, lambda: result.fill(wrong))


def aligned(array: Any) -> Any:
    """A copy in one piece that begins at a line of the cache, as torch's own memory does and NumPy's does not."""
    copy = _aligned(array.shape, array.dtype)
    copy[...] = array
    return copy


def _aligned(size: tuple[int, ...], kind: Any) -> Any:
    nbytes = math.prod(size) * kind.itemsize
    memory = np.empty(nbytes + LINE, np.uint8)
    first = -memory.ctypes.data % LINE
    return memory[first : first + nbytes].view(kind).reshape(size)


def rounded(values: Float32, arithmetic: Arithmetic) -> Float32:
    """The values rounded to nearest, ties to even, with as many bits as the type has; below its normal numbers, 0."""
    if arithmetic.significand >= 24:
        return values
    dropped = np.uint32(24 - arithmetic.significand)
    bits = values.view(np.uint32)
    half = (np.uint32(1) << dropped - np.uint32(1)) - np.uint32(1)
    bits = (bits + half + (bits >> dropped & np.uint32(1))) >> dropped << dropped
    return np.where(np.abs(values) < arithmetic.normal, np.float32(0.0), bits.view(np.float32))
