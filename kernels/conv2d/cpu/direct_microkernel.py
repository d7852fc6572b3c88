"""Register tiles of output pixels side by side, where what their taps see lies a line of the cache apart.

So that a tile's rows are at places known when it is compiled: no address of theirs takes a register, or is loaded.
"""

from typing import Any

from llvmlite import ir
from numba import types

from ...cpu.compiled import compiled
from ...cpu.microkernel import WORD, nothing, row_of
from ...cpu.simd import I8, I64, LINE, OWN, VECTORS, Code, Value, Vectors, instruction

ENTRY = 2  # words
FETCHED = 4  # lines that an entry brings near
LOW, WIDE, TALL = OWN.count // 4, (OWN.count - 4) // 2, OWN.count // 2  # pixels of a tile
MIDDLE = LOW + 1
# By the vectors of a pixel: as many sums as there are registers, and less for what is left of a row.
HEIGHTS = {1: (TALL, WIDE, LOW), VECTORS: (WIDE, MIDDLE, LOW)}
# Steps in one turn, by the vectors as well: LLVM reads the numbers of several steps at once, which then need registers
# of their own; where there is one vector, a product takes its number from memory.
STEPS = {1: 8, VECTORS: 2}


def _pixels_of(height: int, vectors: int) -> Any:
    """The instruction for so many pixels and vectors of filters."""

    @instruction
    def multiply(
        typingctx: Any, like: Any, a: Any, entries: Any, count: Any, b: Any, c: Any, apart: Any, ahead: Any, on: Any
    ) -> Any:
        def generate(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> Any:
            code = Code(builder, like)
            _, a, entries, count, b, c, apart, ahead, on = arguments
            target = row_of(code, c, apart)

            def entry(index: Value, sums: Vectors) -> Vectors:
                here = code.at(code.pointer(entries), builder.mul(index, I64(ENTRY * WORD)), I8)
                seen, sliver = code.numbers(here, ENTRY)
                code.expect(code.at(code.pointer(ahead), builder.mul(index, on), I8), FETCHED)
                return _line(code, code.pointer(builder.add(a, seen)), code.pointer(builder.add(b, sliver)), sums)

            sums = code.repeat(I64(0), count, 1, nothing(code, height, vectors), entry)[1]
            for row, found in enumerate(sums):
                for place, vector in enumerate(found):
                    code.store(vector, target(I64(row)), place * OWN.nbytes)
            return context.get_dummy_value()

        return types.void(like, *[types.intp] * 8), generate

    return multiply


def _line(code: Code, a: Value, b: Value, sums: Vectors) -> Vectors:
    """Sums and the products of a line of each pixel with its part of a sliver."""
    builder, width, unrolled = code.builder, VECTORS * OWN.nbytes, STEPS[len(sums[0])]

    def turn(index: Value, sums: Vectors) -> Vectors:
        seen = code.at(a, builder.mul(index, I64(code.itemsize)), I8)
        sliver = code.at(b, builder.mul(index, I64(width)), I8)
        sums = list(sums)
        for step in range(unrolled):
            vectors = [code.load(sliver, step * width + place * OWN.nbytes) for place in range(len(sums[0]))]
            for row, found in enumerate(sums):
                number = code.broadcast(seen, row * LINE + step * code.itemsize)
                pairs = zip(vectors, found, strict=True)
                sums[row] = [code.multiply_add(number, vector, sum_) for vector, sum_ in pairs]
        return sums

    return code.repeat(I64(0), I64(LINE // code.itemsize), unrolled, sums, turn)[1]


_one_tall, _one_wide, _one_low = (_pixels_of(height, 1) for height in HEIGHTS[1])
_all_wide, _all_middle, _all_low = (_pixels_of(height, VECTORS) for height in HEIGHTS[VECTORS])


@compiled
def multiply_pixels(
    like: Any, a: Any, entries: Any, count: Any, b: Any, c: Any, apart: Any, height: Any, narrow: Any, ahead: Any,
    on: Any,
) -> None:
    """C = A B of `height` pixels, one of HEIGHTS, summed over `count` entries of a line of each pixel.

    An entry says how many bytes from `a` on the first pixel's line lies, the others' after it, and how many from `b`
    on its part of the sliver. Pixels of C lie `apart` bytes apart. A narrow tile is one vector wide, of a sliver as
    wide as others. Each entry has FETCHED lines brought near that will be wanted next, from `ahead` on, `on` bytes
    after those of the entry before.
    """
    if narrow:
        if height == TALL:
            _one_tall(like, a, entries, count, b, c, apart, ahead, on)
        elif height == WIDE:
            _one_wide(like, a, entries, count, b, c, apart, ahead, on)
        else:
            _one_low(like, a, entries, count, b, c, apart, ahead, on)
    elif height == WIDE:
        _all_wide(like, a, entries, count, b, c, apart, ahead, on)
    elif height == MIDDLE:
        _all_middle(like, a, entries, count, b, c, apart, ahead, on)
    else:
        _all_low(like, a, entries, count, b, c, apart, ahead, on)
