"""Micro-kernels of the weight gradient in groups that divide a vector: the sums of some taps stay in registers.

The sums are those of grouped_microkernel.py: in sum r, lane l is the product of channel l with the gradient of the
filter r lanes further on in its group.
"""

from collections.abc import Sequence
from typing import Any

from llvmlite import ir
from numba import types

from ...cpu.compiled import compiled
from ...cpu.simd import HOST, I8, I64, Code, Value, Vectors, instruction
from .grouped_microkernel import SUMS, rotated

TAPS = (5, 3)  # neighbouring taps at a time, where their sums fit; and 1


def widths(vectors: int, group: int) -> list[int]:
    """Numbers of taps at a time for groups of so many channels, the last one 1."""
    return [taps for taps in TAPS if taps * vectors * group <= SUMS and not (group == vectors == 1)] + [1]


def _taps_of(taps: int, vectors: int, group: int) -> Any:
    """The instruction for so many taps and vectors of channels."""

    @instruction
    def accumulate(
        typingctx: Any, like: Any, x: Any, steps: Any, apart: Any, g: Any, pixels: Any, rows: Any, count: Any, out: Any
    ) -> Any:
        def generate(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> Any:
            code = Code(builder, like)
            _, x, steps, apart, g, pixels, rows, count, out = arguments
            if taps not in widths(vectors, group) or code.lanes % group or code.lanes == group:
                return context.get_dummy_value()  # never called
            (x_down, x_right), (g_down, g_right) = (
                [builder.extract_value(pair, place) for place in (0, 1)] for pair in (steps, pixels)
            )
            first = [builder.add(x, builder.mul(apart, I64(tap))) for tap in range(taps)]
            total, own = code.pointer(out), vectors * group

            def row(index: Value, sums: Vectors) -> Vectors:
                down = builder.mul(index, x_down)
                seen = [code.pointer(builder.add(tap, down)) for tap in first]
                given = code.at(code.pointer(g), builder.mul(index, g_down), I8)

                def pixel(place: Value, sums: Vectors) -> Vectors:
                    right = builder.mul(place, x_right)
                    factors = _gradients(code, code.at(given, builder.mul(place, g_right), I8), vectors, group)
                    return [
                        _added(code, code.at(tap, right, I8), factors, row, group)
                        for tap, row in zip(seen, sums, strict=True)
                    ]

                return code.loop(I64(0), count, 1, sums, pixel)[1]

            before = [
                [code.load(total, (tap * own + place) * HOST.nbytes) for place in range(own)] for tap in range(taps)
            ]
            for tap, sums in enumerate(code.loop(I64(0), rows, 1, before, row)[1]):
                for place, vector in enumerate(sums):
                    code.store(vector, total, (tap * own + place) * HOST.nbytes)
            return context.get_dummy_value()

        pair = types.UniTuple(types.intp, 2)
        return types.void(like, types.intp, pair, types.intp, types.intp, pair, *[types.intp] * 3), generate

    return accumulate


def _gradients(code: Code, given: Value, vectors: int, group: int) -> list[Value]:
    """The factors of the sums of a tap: the gradient of a pixel, rotated."""
    loaded = [code.load(given, place * HOST.nbytes) for place in range(vectors)]
    return [rotated(code, vector, group, turn) for vector in loaded for turn in range(group)]


def _added(code: Code, x: Value, factors: Sequence[Value], sums: Sequence[Value], group: int) -> list[Value]:
    """Add the products of a pixel under a tap."""
    seen = [code.load(x, place * HOST.nbytes) for place in range(len(factors) // group)]
    return [
        code.multiply_add(seen[place // group], factor, total)
        for place, (factor, total) in enumerate(zip(factors, sums, strict=True))
    ]


_five, _three, _one = (_taps_of(taps, 2, 1) for taps in (*TAPS, 1))
_one_narrow = _taps_of(1, 1, 1)
_five_of_2, _three_of_2, _one_of_2 = (_taps_of(taps, 1, 2) for taps in (*TAPS, 1))
_five_of_4, _three_of_4, _one_of_4 = (_taps_of(taps, 1, 4) for taps in (*TAPS, 1))
_three_of_8, _one_of_8 = (_taps_of(taps, 1, 8) for taps in (3, 1))


@compiled
def accumulate_taps(
    like: Any, group: Any, vectors: Any, taps: Any, x: Any, steps: Any, apart: Any, g: Any, pixels: Any, rows: Any,
    count: Any, out: Any,
) -> None:
    """Add the products of `rows` rows of `count` pixels to the sums of `taps` neighbouring taps, one of `widths`.

    x: what the first pixel sees through the first tap, `apart` bytes before the next one. steps: bytes to what the next
    row and the next pixel see. pixels: bytes to the next row and pixel of g.
    """
    if group == 1 and vectors == 1:
        _one_narrow(like, x, steps, apart, g, pixels, rows, count, out)
    elif group == 1 and taps == 5:
        _five(like, x, steps, apart, g, pixels, rows, count, out)
    elif group == 1 and taps == 3:
        _three(like, x, steps, apart, g, pixels, rows, count, out)
    elif group == 1:
        _one(like, x, steps, apart, g, pixels, rows, count, out)
    else:
        _accumulate_groups(like, group, taps, x, steps, apart, g, pixels, rows, count, out)


@compiled
def _accumulate_groups(
    like: Any, group: Any, taps: Any, x: Any, steps: Any, apart: Any, g: Any, pixels: Any, rows: Any, count: Any,
    out: Any,
) -> None:
    if group == 2 and taps == 5:
        _five_of_2(like, x, steps, apart, g, pixels, rows, count, out)
    elif group == 2 and taps == 3:
        _three_of_2(like, x, steps, apart, g, pixels, rows, count, out)
    elif group == 2:
        _one_of_2(like, x, steps, apart, g, pixels, rows, count, out)
    elif group == 4 and taps == 5:
        _five_of_4(like, x, steps, apart, g, pixels, rows, count, out)
    elif group == 4 and taps == 3:
        _three_of_4(like, x, steps, apart, g, pixels, rows, count, out)
    elif group == 4:
        _one_of_4(like, x, steps, apart, g, pixels, rows, count, out)
    elif taps == 3:
        _three_of_8(like, x, steps, apart, g, pixels, rows, count, out)
    else:
        _one_of_8(like, x, steps, apart, g, pixels, rows, count, out)
