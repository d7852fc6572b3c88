"""Micro-kernels of grouped convolutions whose groups divide a vector: products of vectors of source and weights.

A vector of channels holds whole groups, each of as many filters as channels. All filters of a group need each of its
numbers. No number is moved for that: the vector is multiplied by the weights of several filters in turn, and the
products are added to a sum for each. In sum r, lane l is what channel l adds to the filter r lanes further on in its
group, counted cyclically. At the end sum r is rotated by r lanes within the groups, and the sums are added. Depth-wise
layers have one channel a group, one sum, and nothing to rotate.
"""

from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir
from numba import types

from ...cpu.compiled import compiled
from ...cpu.microkernel import WORD, zero_sums
from ...cpu.simd import HOST, I8, I64, LINE, Code, Value, Vectors, instruction

GROUPS = (1, 2, 4, 8)  # channels of a group that is a part of a vector
SUMS = HOST.count - 4  # vectors of sums of a tile, in registers
ENTRY = 2  # 64-bit words
HEIGHTS = (6, 5, 3)  # pixels of a tile, where the sums of so many fit; there are tiles of one pixel besides


def heights(vectors: int, group: int) -> list[int]:
    """Heights of the tiles of groups of so many channels, the last one 1."""
    return [height for height in HEIGHTS if height * vectors * group <= SUMS and not (group == vectors == 1)] + [1]


def rotated(code: Code, vector: Value, group: int, by: int) -> Value:
    """The vector whose lane l is the lane `by` further on in the group of l, counted cyclically."""
    if by % group == 0:
        return vector
    places = [lane - lane % group + (lane + by) % group for lane in range(code.lanes)]
    return code.shuffle(vector, vector, places)


def _pixels_of(height: int, vectors: int, group: int) -> Any:
    """The instruction for `height` output pixels and `vectors` vectors of channels."""

    @instruction
    def multiply(
        typingctx: Any, like: Any, x: Any, apart: Any, entries: Any, count: Any, w: Any, y: Any, pixel: Any
    ) -> Any:
        def generate(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> Any:
            code = Code(builder, like)
            _, x, apart, entries, count, w, y, pixel = arguments
            if height not in heights(vectors, group) or code.lanes % group or code.lanes == group > 1:
                return context.get_dummy_value()  # never called
            first = [builder.add(x, builder.mul(apart, I64(place))) for place in range(height)]

            def entry(index: Value, sums: Vectors) -> Vectors:
                here = code.at(code.pointer(entries), builder.mul(index, I64(ENTRY * WORD)), I8)
                seen, tap = code.load_int64s(here, ENTRY)
                by = code.at(code.pointer(w), builder.mul(tap, I64(vectors * group * HOST.nbytes)), I8)
                weights = [code.load(by, place * HOST.nbytes) for place in range(vectors * group)]
                pixels = [code.pointer(builder.add(place, seen)) for place in first]
                return [_added(code, place, weights, row, group) for place, row in zip(pixels, sums, strict=True)]

            sums = code.loop(I64(0), count, 1, zero_sums(code, height, vectors * group), entry)[1]
            for place, row in enumerate(sums):
                to = code.at(code.pointer(y), builder.mul(pixel, I64(place)), I8)
                for vector in range(vectors):
                    code.store(_total(code, row[vector * group : (vector + 1) * group]), to, vector * HOST.nbytes)
            return context.get_dummy_value()

        return types.void(like, *[types.intp] * 7), generate

    return multiply


def _added(code: Code, pixel: Value, weights: Sequence[Value], sums: Sequence[Value], group: int) -> list[Value]:
    """Add the products of a pixel with the weights of a tap."""
    seen = [code.load(pixel, place * HOST.nbytes) for place in range(len(weights) // group)]
    return [
        code.multiply_add(seen[place // group], by, total)
        for place, (by, total) in enumerate(zip(weights, sums, strict=True))
    ]


def _total(code: Code, sums: Sequence[Value]) -> Value:
    """The sum of all sums, each rotated back to the lanes of its filters: those with odd numbers first, and so on."""
    group, by, left = len(sums), 1, list(sums)
    while len(left) > 1:
        pairs = zip(left[::2], left[1::2], strict=True)
        left = [code.builder.fadd(even, rotated(code, odd, group, -by)) for even, odd in pairs]
        by *= 2
    return left[0]


_six, _five, _three, _one = (_pixels_of(height, 2, 1) for height in (*HEIGHTS, 1))
_one_narrow = _pixels_of(1, 1, 1)
_six_of_2, _five_of_2, _three_of_2, _one_of_2 = (_pixels_of(height, 1, 2) for height in (*HEIGHTS, 1))
_six_of_4, _five_of_4, _three_of_4, _one_of_4 = (_pixels_of(height, 1, 4) for height in (*HEIGHTS, 1))
_three_of_8, _one_of_8 = (_pixels_of(height, 1, 8) for height in (3, 1))


def _prefetched(fetch: Callable[[Code, Value], Any]) -> Any:
    """An instruction that prefetches the line at an address."""

    @instruction
    def prefetch(typingctx: Any, address: Any) -> Any:
        def generate(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> Any:
            code = Code(builder, types.float32)
            fetch(code, code.pointer(arguments[0]))
            return context.get_dummy_value()

        return types.void(types.intp), generate

    return prefetch


prefetch_read = _prefetched(lambda code, line: code.prefetch_read(line, 1))
prefetch_write = _prefetched(lambda code, line: code.prefetch_write(line, 0))


@compiled
def prefetch_part(address: Any, nbytes: Any, begin: Any, size: Any, whole: Any) -> None:
    """Prefetch a part of `nbytes` bytes: the part that the bytes begin, ..., begin + size - 1 are of `whole` bytes."""
    first = nbytes * begin // whole // LINE * LINE
    for place in range(first, nbytes * (begin + size) // whole, LINE):
        prefetch_read(address + place)


@compiled
def multiply_pixels(
    like: Any, group: Any, vectors: Any, height: Any, x: Any, apart: Any, entries: Any, count: Any, w: Any, y: Any,
    pixel: Any,
) -> None:
    """Compute `height` neighbouring pixels of y, one of `heights`, summed over `count` entries, `vectors` at a time.

    An entry holds the byte offset from x of what the first pixel sees through a tap, and the number of the tap; the
    next pixel sees it `apart` bytes further. w holds `group` vectors a tap and vector. Pixels of y are `pixel` bytes
    apart.
    """
    if group == 1:
        _depthwise(like, vectors, height, x, apart, entries, count, w, y, pixel)
    elif group == 2:
        _groups_of_2(like, height, x, apart, entries, count, w, y, pixel)
    elif group == 4:
        _groups_of_4(like, height, x, apart, entries, count, w, y, pixel)
    elif height == 3:
        _three_of_8(like, x, apart, entries, count, w, y, pixel)
    else:
        _one_of_8(like, x, apart, entries, count, w, y, pixel)


@compiled
def _depthwise(
    like: Any, vectors: Any, height: Any, x: Any, apart: Any, entries: Any, count: Any, w: Any, y: Any, pixel: Any
) -> None:
    if vectors == 1:
        _one_narrow(like, x, apart, entries, count, w, y, pixel)
    elif height == 6:
        _six(like, x, apart, entries, count, w, y, pixel)
    elif height == 5:
        _five(like, x, apart, entries, count, w, y, pixel)
    elif height == 3:
        _three(like, x, apart, entries, count, w, y, pixel)
    else:
        _one(like, x, apart, entries, count, w, y, pixel)


@compiled
def _groups_of_2(
    like: Any, height: Any, x: Any, apart: Any, entries: Any, count: Any, w: Any, y: Any, pixel: Any
) -> None:
    if height == 6:
        _six_of_2(like, x, apart, entries, count, w, y, pixel)
    elif height == 5:
        _five_of_2(like, x, apart, entries, count, w, y, pixel)
    elif height == 3:
        _three_of_2(like, x, apart, entries, count, w, y, pixel)
    else:
        _one_of_2(like, x, apart, entries, count, w, y, pixel)


@compiled
def _groups_of_4(
    like: Any, height: Any, x: Any, apart: Any, entries: Any, count: Any, w: Any, y: Any, pixel: Any
) -> None:
    if height == 6:
        _six_of_4(like, x, apart, entries, count, w, y, pixel)
    elif height == 5:
        _five_of_4(like, x, apart, entries, count, w, y, pixel)
    elif height == 3:
        _three_of_4(like, x, apart, entries, count, w, y, pixel)
    else:
        _one_of_4(like, x, apart, entries, count, w, y, pixel)
