"""Rotary positions on a CPU: pairs of features i, i + features / 2 of each row are rotated by the angles of its place.

Su et al., RoFormer, 2021, section 3.4.2, with pairs half a row apart. Rotated backwards, gradients of rotated rows are
those of the rows.
"""

from typing import Any

from llvmlite import ir
from numba import types

from ...cpu.compiled import compiled
from ...cpu.load_store import bytes_of
from ...cpu.parallel import parallel_for
from ...cpu.simd import I64, Code, Value, Vectors, instruction
from .layout import head_of


@compiled
def rotate(direction: Any, sizes: Any, source: Any, target: Any, angles: Any, threads: Any) -> None:
    """Fill the rows of the target, which may be the source.

    direction: 1, or -1 for backwards. angles: addresses of cosines and sines [places, features / 2].
    """
    parallel_for(_rotate_heads, threads, (direction, sizes, source, target, angles, threads))


@compiled
def _rotate_heads(
    thread: Any, direction: Any, sizes: Any, source: Any, target: Any, angles: Any, threads: Any
) -> None:
    half = sizes.features // 2
    for number in range(thread, sizes.batch * sizes.heads, threads):
        come, go = head_of(source, number, sizes), head_of(target, number, sizes)
        for place in range(sizes.places):
            at = place * half * bytes_of(direction)
            rows = (come[0] + place * come[1], go[0] + place * go[1])
            _rotate_row(direction, rows[0], rows[1], angles[0] + at, angles[1] + at, half)


@instruction
def _rotate_row(
    typingctx: Any, direction: Any, source: Any, target: Any, cosines: Any, sines: Any, half: Any
) -> Any:
    """a cos - b sin and b cos + a sin of both halves a, b of a row; whole vectors."""

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> Any:
        code = Code(builder, direction)
        sign, half = code.splat(arguments[0]), arguments[5]
        source, target, cosines, sines = (code.pointer(each) for each in arguments[1:5])

        def body(index: Value, sums: Vectors) -> Vectors:
            at = builder.mul(index, I64(code.itemsize))
            after = builder.mul(builder.add(index, half), I64(code.itemsize))
            a, b, cosine = code.load(source, at), code.load(source, after), code.load(cosines, at)
            sine = builder.fmul(sign, code.load(sines, at))
            code.store(builder.fsub(builder.fmul(a, cosine), builder.fmul(b, sine)), target, at)
            code.store(code.multiply_add(b, cosine, builder.fmul(a, sine)), target, after)
            return sums

        code.loop(I64(0), half, code.lanes, [], body)
        return context.get_dummy_value()

    return types.void(direction, *[types.intp] * 5), generate
