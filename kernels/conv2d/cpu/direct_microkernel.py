"""Micro-kernel of the direct convolution: a tile of neighbouring output pixels whose sources lie one cache line apart.

The offsets of all rows of the tile are compile-time constants, so that no address occupies a register or is loaded.
"""

from typing import Any

from llvmlite import ir
from numba import types

from ...cpu.compiled import compiled
from ...cpu.microkernel import WORD, row_pointer, zero_sums
from ...cpu.simd import HOST, I8, I64, LINE, VECTORS, Code, Value, Vectors, instruction

ENTRY = 2  # 64-bit words
PREFETCHED = 4  # lines that an entry prefetches
SHORT, WIDE, TALL = HOST.count // 4, (HOST.count - 4) // 2, HOST.count // 2  # pixels of a tile
MIDDLE = SHORT + 1
# Tile heights by the vectors of a pixel: sums fill the registers; lower tiles are for the remainder of a row.
HEIGHTS = {1: (TALL, WIDE, SHORT), VECTORS: (WIDE, MIDDLE, SHORT)}
# Steps of an iteration, by the vectors of a pixel. LLVM loads the numbers of several steps together into registers;
# with one vector a multiplication takes its number from memory.
STEPS = {1: 8, VECTORS: 2}


def _pixels_of(height: int, vectors: int) -> Any:
    """The instruction for `height` pixels and `vectors` vectors of filters."""

    @instruction
    def multiply(
        typingctx: Any,
        like: Any,
        a: Any,
        entries: Any,
        count: Any,
        b: Any,
        c: Any,
        pixel_stride: Any,
        prefetch: Any,
        prefetch_step: Any,
    ) -> Any:
        def generate(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> Any:
            code = Code(builder, like)
            _, a, entries, count, b, c, pixel_stride, prefetch, prefetch_step = arguments
            target = row_pointer(code, c, pixel_stride)

            def entry(index: Value, sums: Vectors) -> Vectors:
                here = code.at(code.pointer(entries), builder.mul(index, I64(ENTRY * WORD)), I8)
                seen, sliver = code.load_int64s(here, ENTRY)
                code.prefetch_read(code.at(code.pointer(prefetch), builder.mul(index, prefetch_step), I8), PREFETCHED)
                return _line(code, code.pointer(builder.add(a, seen)), code.pointer(builder.add(b, sliver)), sums)

            sums = code.loop(I64(0), count, 1, zero_sums(code, height, vectors), entry)[1]
            for row, row_sums in enumerate(sums):
                for place, vector in enumerate(row_sums):
                    code.store(vector, target(I64(row)), place * HOST.nbytes)
            return context.get_dummy_value()

        return types.void(like, *[types.intp] * 8), generate

    return multiply


def _line(code: Code, a: Value, b: Value, sums: Vectors) -> Vectors:
    """Add the products of one line of each pixel with its part of a sliver."""
    builder, width, unrolled = code.builder, VECTORS * HOST.nbytes, STEPS[len(sums[0])]

    def iteration(index: Value, sums: Vectors) -> Vectors:
        seen = code.at(a, builder.mul(index, I64(code.itemsize)), I8)
        sliver = code.at(b, builder.mul(index, I64(width)), I8)
        sums = list(sums)
        for step in range(unrolled):
            vectors = [code.load(sliver, step * width + place * HOST.nbytes) for place in range(len(sums[0]))]
            for row, row_sums in enumerate(sums):
                number = code.broadcast(seen, row * LINE + step * code.itemsize)
                pairs = zip(vectors, row_sums, strict=True)
                sums[row] = [code.multiply_add(number, vector, sum_) for vector, sum_ in pairs]
        return sums

    return code.loop(I64(0), I64(LINE // code.itemsize), unrolled, sums, iteration)[1]


_one_tall, _one_wide, _one_short = (_pixels_of(height, 1) for height in HEIGHTS[1])
_all_wide, _all_middle, _all_short = (_pixels_of(height, VECTORS) for height in HEIGHTS[VECTORS])


@compiled
def multiply_pixels(
    like: Any,
    a: Any,
    entries: Any,
    count: Any,
    b: Any,
    c: Any,
    pixel_stride: Any,
    height: Any,
    narrow: Any,
    prefetch: Any,
    prefetch_step: Any,
) -> None:
    """Compute C = A B for `height` pixels, one of HEIGHTS, summed over `count` entries of one line of each pixel.

    An entry holds the byte offset from `a` of the line of the first pixel, which the others follow, and the byte offset
    from `b` of its part of the sliver. Pixels of C are `pixel_stride` bytes apart. A narrow tile is one vector wide, of
    a sliver of full width. Each entry prefetches PREFETCHED lines, from `prefetch` on, `prefetch_step` bytes after
    those of the previous entry.
    """
    if narrow:
        if height == TALL:
            _one_tall(like, a, entries, count, b, c, pixel_stride, prefetch, prefetch_step)
        elif height == WIDE:
            _one_wide(like, a, entries, count, b, c, pixel_stride, prefetch, prefetch_step)
        else:
            _one_short(like, a, entries, count, b, c, pixel_stride, prefetch, prefetch_step)
    elif height == WIDE:
        _all_wide(like, a, entries, count, b, c, pixel_stride, prefetch, prefetch_step)
    elif height == MIDDLE:
        _all_middle(like, a, entries, count, b, c, pixel_stride, prefetch, prefetch_step)
    else:
        _all_short(like, a, entries, count, b, c, pixel_stride, prefetch, prefetch_step)
