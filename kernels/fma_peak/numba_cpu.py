"""FMA peak on CPUs: every thread repeats multiply-adds on all accumulators of a micro-kernel tile."""

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types

from ..arrays import poisoned, prepared
from ..cpu.compiled import compiled
from ..cpu.parallel import parallel_for
from ..cpu.simd import I64, ROWS, VECTORS, Code, Value, Vectors, instruction, lanes
from ..providers import Call, Prepared
from ..spec import DTYPES
from . import FACTOR, Numbers, Shape

PROVIDER = "custom"
DEVICES = ("cpu",)

UNROLLED = 4


@instruction
def repeat_fma(typingctx: Any, factor: Any, term: Any, steps: Any, target: Any) -> Any:
    """Store the sums of a tile after `steps` steps of sum * factor + term from 0."""

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> Any:
        code = Code(builder, factor)
        a, b = (code.splat(number) for number in arguments[:2])

        def body(index: Value, sums: Vectors) -> Vectors:
            for _ in range(UNROLLED):
                sums = [[code.multiply_add(vector, a, b) for vector in row] for row in sums]
            return sums

        zero_sums = [[code.zero] * VECTORS for _ in range(ROWS)]
        sums = code.loop(I64(0), arguments[2], UNROLLED, zero_sums, body)[1]
        place = code.pointer(arguments[3])
        for number, vector in enumerate(vector for row in sums for vector in row):
            code.store(vector, place, number * code.lanes * code.itemsize)
        return context.get_dummy_value()

    return types.void(factor, factor, types.intp, types.intp), generate


@compiled
def _repeat_on_threads(threads: Any, factor: Any, term: Any, steps: Any, target: Any, nbytes: Any) -> None:
    parallel_for(_repeat, threads, (factor, term, steps, target, nbytes))


@compiled
def _repeat(thread: Any, factor: Any, term: Any, steps: Any, target: Any, nbytes: Any) -> None:
    repeat_fma(factor, term, steps, target + thread * nbytes)


def peak(kind: Any, factor: float, term: float, steps: int, threads: int) -> Any:
    """The sums [threads, sums of a tile] of a NumPy type; steps must be a multiple of 4."""
    sums = poisoned((threads, _sums(kind)), np.dtype(kind).name)
    _repeat_on_threads(threads, kind(factor), kind(term), steps, sums.ctypes.data, sums.strides[0])
    return sums


def _sums(kind: Any) -> int:
    """Sums of a thread."""
    return ROWS * VECTORS * lanes(np.dtype(kind).itemsize)


def shape(dtype: str, steps: int, device: str, threads: int) -> Shape:
    """The shape to measure with so many threads."""
    return Shape(threads * _sums(DTYPES[dtype].operand), steps)


def prepare(shape: Shape, direction: str, data: Numbers, device: str, threads: int) -> list[Prepared]:
    """The only variant. See `Prepared`."""
    kind = np.dtype(DTYPES[data.dtype].operand)
    sums = poisoned((threads, shape.sums // threads), kind.name)

    def bind(data: Numbers) -> Call:
        work = (threads, kind.type(FACTOR), kind.type(data.term), shape.steps, sums.ctypes.data, sums.strides[0])
        return lambda: _repeat_on_threads(*work)

    return [prepared(bind, data, sums)]
