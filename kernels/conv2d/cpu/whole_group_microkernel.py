"""Micro-kernels of grouped convolutions whose groups fill one or two vectors.

Forward: each number of a pixel is multiplied by the vectors of its weights for all filters of the group, and added to
the sums of the pixel. Weight gradient: each number of a pixel is multiplied by the gradient of all filters. Pixels are
read where they lie; the sums stay in registers.
"""

from collections.abc import Sequence
from functools import partial
from itertools import product
from typing import Any

from llvmlite import ir
from numba import types

from ...cpu.compiled import compiled
from ...cpu.load_store import bytes_of
from ...cpu.microkernel import WORD, zero_sums
from ...cpu.packing import LINE as VECTOR
from ...cpu.simd import HOST, I8, I64, Code, Value, Vectors, instruction

VECTORS = (1, 2)  # of a group
ENTRY = 2  # 64-bit words
HEIGHTS = (6, 5, 3, 1)  # pixels of a tile
CASES = 8  # more than HEIGHTS has numbers
SUMS = 12  # vectors of sums of a tile, at most: enough to hide the latency, and as many as fit 16 registers


def sums_of_pixel(height: int, vectors: int) -> int:
    """Sums of a pixel and vector, each of every so many-th channel: low tiles need several to hide the latency."""
    return max(count for count in (1, 2, 4, 8) if count == 1 or count * height * vectors <= SUMS)


@instruction
def multiply_whole(
    typingctx: Any, like: Any, vectors: Any, height: Any, x: Any, apart: Any, entries: Any, count: Any, w: Any, y: Any,
    pixel: Any,
) -> Any:
    """Compute `height` neighbouring pixels of y, one of HEIGHTS; arguments as of grouped_microkernel.multiply_pixels.

    w holds for each tap and channel the vectors of its weights for all filters.
    """

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> Any:
        code, (_, vectors, height, *given) = Code(builder, like), arguments
        chosen = builder.add(builder.mul(vectors, I64(CASES)), height)
        emits = {
            wide * CASES + high: partial(_emit_pixels, code, high, wide, *given)
            for wide, high in product(VECTORS, HEIGHTS)
        }
        code.switch(chosen, emits)
        return context.get_dummy_value()

    return types.void(like, *[types.intp] * 9), generate


def _emit_pixels(
    code: Code, height: int, vectors: int, x: Value, apart: Value, entries: Value, count: Value, w: Value, y: Value,
    pixel: Value,
) -> None:
    """Emit the sums of `height` output pixels of a group of so many vectors."""
    builder, channels, several = code.builder, vectors * code.lanes, sums_of_pixel(height, vectors)
    first = [builder.add(x, builder.mul(apart, I64(place))) for place in range(height)]

    def entry(index: Value, sums: Vectors) -> Vectors:
        here = code.at(code.pointer(entries), builder.mul(index, I64(ENTRY * WORD)), I8)
        seen, tap = code.load_int64s(here, ENTRY)
        by = code.at(code.pointer(w), builder.mul(tap, I64(channels * vectors * HOST.nbytes)), I8)
        pixels = [code.pointer(builder.add(place, seen)) for place in first]
        added = [list(row) for row in sums]
        for channel in range(channels):
            weights = [code.load(by, (channel * vectors + place) * HOST.nbytes) for place in range(vectors)]
            _add(code, added, pixels, channel * code.itemsize, weights, channel % several * vectors)
        return added

    sums = code.loop(I64(0), count, 1, zero_sums(code, height, several * vectors), entry)[1]
    for place, row in enumerate(sums):
        to = code.at(code.pointer(y), builder.mul(pixel, I64(place)), I8)
        for vector in range(vectors):
            code.store(_total(code, row[vector::vectors]), to, vector * HOST.nbytes)


def _add(
    code: Code, sums: list[list[Value]], pixels: Sequence[Value], offset: int, weights: Sequence[Value], first: int
) -> None:
    """Add the products of a channel of all pixels to their sums from number `first` on."""
    for row, pixel in zip(sums, pixels, strict=True):
        number = code.broadcast(pixel, offset)
        for place, by in enumerate(weights, first):
            row[place] = code.multiply_add(number, by, row[place])


def _total(code: Code, sums: Sequence[Value]) -> Value:
    left = list(sums)
    while len(left) > 1:
        left = [code.builder.fadd(one, other) for one, other in zip(left[::2], left[1::2], strict=True)]
    return left[0]


@instruction
def _accumulate(
    typingctx: Any, like: Any, vectors: Any, x: Any, steps: Any, g: Any, pixels: Any, rows: Any, count: Any, out: Any
) -> Any:
    """Some channels of a group, as many as give a sum for each lane."""

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> Any:
        code, (_, vectors, *given) = Code(builder, like), arguments
        code.switch(vectors, {wide: partial(_emit_gradient, code, wide, *given) for wide in VECTORS})
        return context.get_dummy_value()

    pair = types.UniTuple(types.intp, 2)
    return types.void(like, types.intp, types.intp, pair, types.intp, pair, *[types.intp] * 3), generate


def _emit_gradient(
    code: Code, vectors: int, x: Value, steps: Value, g: Value, pixels: Value, rows: Value, count: Value, out: Value
) -> None:
    """Emit the products of some channels with the gradient of so many vectors of filters."""
    builder, channels, total = code.builder, code.lanes // vectors, code.pointer(out)
    (x_down, x_right), (g_down, g_right) = (
        [builder.extract_value(pair, place) for place in (0, 1)] for pair in (steps, pixels)
    )

    def row(index: Value, sums: Vectors) -> Vectors:
        seen = code.at(code.pointer(x), builder.mul(index, x_down), I8)
        given = code.at(code.pointer(g), builder.mul(index, g_down), I8)

        def pixel(place: Value, sums: Vectors) -> Vectors:
            here = code.at(seen, builder.mul(place, x_right), I8)
            there = code.at(given, builder.mul(place, g_right), I8)
            factors = [code.load(there, vector * HOST.nbytes) for vector in range(vectors)]
            added = [list(row) for row in sums]
            for channel in range(channels):
                _add(code, [added[channel]], [here], channel * code.itemsize, factors, 0)
            return added

        return code.loop(I64(0), count, 1, sums, pixel)[1]

    places = [[(channel * vectors + vector) * HOST.nbytes for vector in range(vectors)] for channel in range(channels)]
    before = [[code.load(total, place) for place in row] for row in places]
    after = code.loop(I64(0), rows, 1, before, row)[1]
    for sums, there in zip(after, places, strict=True):
        for each, place in zip(sums, there, strict=True):
            code.store(each, total, place)


@compiled
def accumulate_whole(
    like: Any, vectors: Any, x: Any, steps: Any, g: Any, pixels: Any, rows: Any, count: Any, out: Any
) -> None:
    """Add the products of `rows` rows of `count` pixels to the sums of a tap; arguments as of
    grouped_gradient_microkernel.accumulate_taps.

    out holds for each channel the vectors of the sums of all filters.
    """
    part = VECTOR // vectors  # bytes of the channels of a call, whose sums are as many as lanes
    for place in range(0, vectors * VECTOR, part):
        at = out + place // bytes_of(like) * vectors * VECTOR
        _accumulate(like, vectors, x + place, steps, g, pixels, rows, count, at)
