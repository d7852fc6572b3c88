"""Triad on all threads, with non-temporal stores, which avoid reading a line before it is overwritten."""

from functools import partial
from typing import Any

from llvmlite import ir
from numba import types

from ..arrays import poisoned, prepared
from ..cpu.compiled import compiled
from ..cpu.load_store import bytes_of, read, write
from ..cpu.packing import LINE
from ..cpu.parallel import parallel_for
from ..cpu.simd import I32, Code, instruction
from ..providers import Prepared
from . import S, Shape, Vectors

PROVIDER = "custom"
DEVICES = ("cpu",)


@instruction
def _triad_vector(typingctx: Any, s: Any, a: Any, b: Any, c: Any) -> Any:
    """a = b + s c for a vector; a must be aligned to a register."""

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> Any:
        code = Code(builder, s)
        factor, (target, first, second) = code.splat(arguments[0]), (code.pointer(x) for x in arguments[1:])
        value = code.multiply_add(code.load(second, 0), factor, code.load(first, 0))
        stored = builder.store(value, code.at(target, 0, code.vector))
        stored.align = LINE
        stored.set_metadata("nontemporal", builder.module.add_metadata([I32(1)]))
        return context.get_dummy_value()

    return types.void(s, types.intp, types.intp, types.intp), generate


@compiled
def _triad(s: Any, a: Any, b: Any, c: Any, count: Any) -> None:
    size = bytes_of(s)
    lanes, place = LINE // size, 0
    while place < count:
        at = place * size
        if (a + at) % LINE == 0 and place + lanes <= count:
            _triad_vector(s, a + at, b + at, c + at)
            place += lanes
        else:
            write(read(s, b + at) + s * read(s, c + at), a + at)
            place += 1


@compiled
def _triad_on_threads(threads: Any, s: Any, a: Any, b: Any, c: Any, count: Any) -> None:
    parallel_for(_triad_part, threads, (s, a, b, c, (count + threads - 1) // threads, count))


@compiled
def _triad_part(thread: Any, s: Any, a: Any, b: Any, c: Any, part: Any, count: Any) -> None:
    first = min(thread * part, count)
    at = first * bytes_of(s)
    _triad(s, a + at, b + at, c + at, min(part, count - first))


def triad(a: Any, b: Any, c: Any, s: float, threads: int = 1) -> None:
    """a = b + s c for contiguous NumPy arrays of float32 or float64."""
    _triad_on_threads(threads, a.dtype.type(s), a.ctypes.data, b.ctypes.data, c.ctypes.data, len(a))


def prepare(shape: Shape, direction: str, data: Vectors, device: str, threads: int) -> list[Prepared]:
    """The one way that there is. See `Prepared`."""
    a = poisoned((shape.length,), data.b.dtype.name)
    return [prepared(lambda vectors: partial(triad, a, vectors.b, vectors.c, S, threads), data, a)]
