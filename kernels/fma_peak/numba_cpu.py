"""The repeated multiply-add on all threads, on as many vectors at once as a tile has."""

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types

from ..arrays import poisoned, prepared
from ..cpu.compiled import compiled
from ..cpu.parallel import in_team
from ..cpu.simd import I64, ROWS, VECTORS, Code, Value, Vectors, instruction, lanes
from ..providers import Prepared
from ..spec import DTYPES
from . import FACTOR, TERM, Shape

PROVIDER = "custom"
DEVICES = ("cpu",)

UNROLLED = 4


@instruction
def repeat_fma(typingctx: Any, factor: Any, term: Any, steps: Any, target: Any) -> Any:
    """Store a tile's sums, 0 at first, after so many steps of sum * factor + term."""

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> Any:
        code = Code(builder, factor)
        a, b = (code.spread(number) for number in arguments[:2])

        def body(index: Value, sums: Vectors) -> Vectors:
            for _ in range(UNROLLED):
                sums = [[code.multiply_add(vector, a, b) for vector in row] for row in sums]
            return sums

        nothing = [[code.zero] * VECTORS for _ in range(ROWS)]
        sums = code.repeat(I64(0), arguments[2], UNROLLED, nothing, body)[1]
        place = code.pointer(arguments[3])
        for number, vector in enumerate(vector for row in sums for vector in row):
            code.store(vector, place, number * code.lanes * code.itemsize)
        return context.get_dummy_value()

    return types.void(factor, factor, types.intp, types.intp), generate


@compiled
def _repeat_on_threads(threads: Any, factor: Any, term: Any, steps: Any, target: Any, nbytes: Any) -> None:
    in_team(_repeat, threads, (factor, term, steps, target, nbytes))


@compiled
def _repeat(thread: Any, factor: Any, term: Any, steps: Any, target: Any, nbytes: Any) -> None:
    repeat_fma(factor, term, steps, target + thread * nbytes)


def peak(kind: Any, factor: float, term: float, steps: int, threads: int) -> Any:
    """The sums [threads, sums of a tile] of a type of NumPy; steps are a multiple of 4."""
    sums = poisoned((threads, _sums(kind)), np.dtype(kind).name)
    _repeat_on_threads(threads, kind(factor), kind(term), steps, sums.ctypes.data, sums.strides[0])
    return sums


def _sums(kind: Any) -> int:
    """Of a thread."""
    return ROWS * VECTORS * lanes(np.dtype(kind).itemsize)


def shape(dtype: str, steps: int, device: str, threads: int) -> Shape:
    """What is measured of so many threads."""
    return Shape(threads * _sums(DTYPES[dtype].operand), steps)


def prepare(shape: Shape, direction: str, data: str, device: str, threads: int) -> list[Prepared]:
    """The one way that there is; `data` is the name of the type. See `Prepared`."""
    kind = np.dtype(DTYPES[data].operand)
    sums = poisoned((threads, shape.sums // threads), kind.name)
    work = (threads, kind.type(FACTOR), kind.type(TERM), shape.steps, sums.ctypes.data, sums.strides[0])
    return [prepared(lambda: _repeat_on_threads(*work), sums)]
