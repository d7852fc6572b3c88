"""Operand and result arrays on the host: aligned like torch's, poisoned, rounded to a type."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from .arithmetic import Arithmetic
from .providers import Call, Prepared
from .spec import Float32

LINE = 64  # bytes of a cache line


def poisoned(size: tuple[int, ...], kind: str) -> Any:
    """A result array filled with NaN or, for integers, the minimum, which no product of bytes is."""
    array = _aligned(size, np.dtype(kind))
    array.fill(poison(kind))
    return array


def poison(kind: str) -> float:
    """The poison value of a type: NaN or, for integers, the minimum."""
    numbers = np.dtype(kind)
    return math.nan if numbers.kind == "f" else int(np.iinfo(numbers).min)


def prepared(
    bind: Callable[[Any], Call], data: Any, result: Any, in_reference_order: Callable[[Any], Any] | None = None
) -> Prepared:
    """A prepared product of `data` whose result is this array; `bind` returns the call for any operands.

    `in_reference_order` transposes it to the reference's dimensions.
    """
    wrong = poison(result.dtype.name)
    view = in_reference_order(result) if in_reference_order else result
    return Prepared(bind(data), lambda: view, lambda: result.fill(wrong), bind=bind, view=lambda: view)


class Once:
    """A conversion of arrays that keeps its results: operands that two calls share are converted once."""

    def __init__(self, convert: Callable[[Any], Any]) -> None:
        self._convert = convert
        self._kept: dict[int, tuple[Any, Any]] = {}  # by identity, with the array, so that it stays alive

    def __call__(self, array: Any) -> Any:
        if id(array) not in self._kept:
            self._kept[id(array)] = array, self._convert(array)
        return self._kept[id(array)][1]


def aligned(array: Any) -> Any:
    """A contiguous copy that begins at a cache line, as torch's memory does and NumPy's does not."""
    copy = _aligned(array.shape, array.dtype)
    copy[...] = array
    return copy


def _aligned(size: tuple[int, ...], kind: Any) -> Any:
    nbytes = math.prod(size) * kind.itemsize
    memory = np.empty(nbytes + LINE, np.uint8)
    first = -memory.ctypes.data % LINE
    return memory[first : first + nbytes].view(kind).reshape(size)


def rounded(values: Float32, arithmetic: Arithmetic) -> Float32:
    """The values rounded to nearest, ties to even, to the bits of the type; 0 below its normal numbers."""
    if arithmetic.significand >= 24:
        return values
    dropped = np.uint32(24 - arithmetic.significand)
    bits = values.view(np.uint32)
    half = (np.uint32(1) << dropped - np.uint32(1)) - np.uint32(1)
    bits = (bits + half + (bits >> dropped & np.uint32(1))) >> dropped << dropped
    return np.where(np.abs(values) < arithmetic.normal, np.float32(0.0), bits.view(np.float32))
