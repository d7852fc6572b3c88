"""Elements and fingerprints of tensors in the memory of the host, in one call on one thread."""

from typing import Any

import numpy as np

from ..cpu.compiled import compiled
from ..cpu.load_store import read
from . import ELEMENTS, FACTORS, LEAST, SHIFTS, TYPES

__all__ = ["ADDRESS", "COUNT", "KIND", "fingerprints", "gather", "note"]

FLOAT32, FLOAT64, BFLOAT16, FLOAT16 = range(len(TYPES))
ADDRESS, KIND, COUNT = range(3)  # rows of what describes the tensors: address, code of the type, elements to read
GRADIENT, WEIGHT = 0, 1  # the first kinds of tensors
STILL, LAST = 0, 1  # rows of marks: steps in which the elements of a weight stayed as they were, and the last of them
Array = np.ndarray[Any, Any]


def gather(tensors: Array, out: Array) -> None:
    """Fill float64 out[kinds, tensors, ELEMENTS] from int64 tensors[kinds, 3, tensors]; address 0 gives 0."""
    _gather(tensors, out)


def fingerprints(elements: Array, counts: Array, smallest: Array, out: Array) -> None:
    """Fill uint64 out[tensors] from float64 elements[tensors, ELEMENTS]; smallest: normal numbers of the types."""
    _fingerprints(elements, counts, smallest, FACTORS, out)


def note(
    tensors: Array,
    now: Array,
    kept: Array,
    weights: Array,
    smallest: Array,
    marks: Array,
    out: Array,
    step: int,
    overflow: int,
) -> None:
    """Read the elements after a step: fingerprints of the gradients in uint64 out[tensors].

    now, kept: float64[kinds, tensors, ELEMENTS], the latest elements, and those of the last step in which the elements
    of a weight were as in `weights`, those after the step before. marks: int64[2, tensors], how many such steps and
    which was the last. overflow: address of an fp32 number, other than 0 in a step that moves nothing; or 0.
    """
    _note(tensors, now, kept, weights, smallest, FACTORS, marks, out, step, overflow)


@compiled
def _note(
    tensors: Any,
    now: Any,
    kept: Any,
    weights: Any,
    smallest: Any,
    factors: Any,
    marks: Any,
    out: Any,
    step: Any,
    overflow: Any,
) -> None:
    skipped = overflow != 0 and read(np.float32(0), overflow) != 0
    _gather(tensors, now)
    _fingerprints(now[GRADIENT], tensors[GRADIENT, COUNT], smallest, factors, out)
    for tensor in range(len(out)):
        still = not skipped
        for place in range(ELEMENTS):
            still &= now[WEIGHT, tensor, place] == weights[tensor, place]
            weights[tensor, place] = now[WEIGHT, tensor, place]
        if still:
            marks[STILL, tensor] += 1
            marks[LAST, tensor] = step
            for kind in range(len(now)):  # as a slice it would take four seconds to compile
                for place in range(ELEMENTS):
                    kept[kind, tensor, place] = now[kind, tensor, place]


@compiled
def _gather(tensors: Any, out: Any) -> None:
    for kind in range(tensors.shape[0]):
        for tensor in range(tensors.shape[2]):
            address, code = tensors[kind, ADDRESS, tensor], tensors[kind, KIND, tensor]
            for place in range(tensors[kind, COUNT, tensor]):
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
    words = elements.view(np.int64)
    for tensor in range(len(counts)):
        finite, normal, total = True, 0, np.uint64(0)
        for place in range(min(counts[tensor], ELEMENTS)):
            size = np.abs(elements[tensor, place])
            finite &= size < np.inf
            normal += smallest[tensor] <= size
            word = words[tensor, place]
            total += np.uint64(word ^ word >> SHIFTS[0] ^ word >> SHIFTS[1]) * factors[place]
        out[tensor] = total | np.uint64(1) if finite and normal >= LEAST else np.uint64(0)
