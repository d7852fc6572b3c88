"""Elements and fingerprints of tensors in the memory of the host, in one call on one thread."""

from typing import Any

import numpy as np

from ..cpu.compiled import compiled
from ..cpu.load_store import read
from . import ELEMENTS, FACTORS, LEAST, TYPES

__all__ = ["fingerprints", "gather"]

FLOAT32, FLOAT64, BFLOAT16, FLOAT16 = range(len(TYPES))
NBYTES = (4, 8, 2, 2)
Array = np.ndarray[Any, Any]


def gather(addresses: Array, types: Array, counts: Array, out: Array) -> None:
    """Fill float64 out[kinds, tensors, ELEMENTS] from int64 addresses and types [kinds, tensors]; address 0 gives 0.

    counts: int64[tensors], elements to read.
    """
    _gather(addresses, types, counts, out)


def fingerprints(elements: Array, counts: Array, smallest: Array, out: Array) -> None:
    """Fill uint64 out[tensors] from float64 elements[tensors, ELEMENTS]; smallest: normal numbers of the types."""
    _fingerprints(elements, counts, smallest, FACTORS, out)


@compiled
def _gather(addresses: Any, types: Any, counts: Any, out: Any) -> None:
    for kind in range(addresses.shape[0]):
        for tensor in range(addresses.shape[1]):
            address, code = addresses[kind, tensor], types[kind, tensor]
            for place in range(counts[tensor]):
                out[kind, tensor, place] = _element(address, code, place) if address else 0.0


@compiled
def _element(address: Any, code: Any, place: Any) -> Any:
    if code == FLOAT32:
        return np.float64(read(np.float32(0), address + 4 * place))
    if code == FLOAT64:
        return read(np.float64(0), address + 8 * place)
    word = np.int64(read(np.int16(0), address + 2 * place)) & 0xFFFF
    if code == BFLOAT16:
        return np.float64(np.uint32(word << 16).view(np.float32))
    return _of_half(word)


@compiled
def _of_half(word: Any) -> Any:
    exponent, fraction = word >> 10 & 31, word & 1023
    sign = -1.0 if word >> 15 else 1.0
    if exponent == 31:
        return sign * np.inf if fraction == 0 else np.nan
    if exponent == 0:
        return sign * fraction * 2.0**-24
    return sign * (1024 + fraction) * 2.0 ** (exponent - 25)


@compiled
def _fingerprints(elements: Any, counts: Any, smallest: Any, factors: Any, out: Any) -> None:
    words = elements.view(np.uint64)
    for tensor in range(len(counts)):
        known, total = counts[tensor] >= LEAST, np.uint64(0)
        for place in range(min(counts[tensor], ELEMENTS)):
            size = np.abs(elements[tensor, place])
            known &= smallest[tensor] <= size < np.inf
            total += words[tensor, place] * factors[place]
        out[tensor] = total | np.uint64(1) if known else np.uint64(0)
