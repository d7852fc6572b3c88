"""Vector passes over pixels by channel: the coefficients of a channel stay in registers while its pixels stream by.

Pixels lie `pitch` bytes apart, with contiguous channels. A table holds the coefficients: one row for each of ROWS,
`apart` bytes from the next, with one number a channel. Channels are a whole number of vectors.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

from numba import types

from .compiled import compiled
from .load_store import bytes_of
from .packing import LINE
from .simd import I8, I64, Code, Value, Vectors, instruction

ROWS = MEAN, FACTOR, SHIFT, SLOPE, TILT, LEVEL = range(6)  # rows of the table
ARRAYS = X, OTHER, Y, DX, DOTHER = range(5)  # OTHER: the addend, or in a backward pass the gradient of y
MOMENTS, APPLY, APPLY_WITH, SUM, SUM_WITH, GRADIENT, GRADIENT_WITH = range(7)  # passes; WITH: with an addend
PREFETCH_DISTANCE = 1024  # bytes; beyond the end of a page, where the hardware prefetcher stops
WIDE = 4  # vectors of channels at a time


class Pixel:
    """A vector of channels of one pixel, as formulas see it: the arrays there, and the coefficients of its channels."""

    def __init__(self, code: Code, floor: Value, known: Sequence[Value], here: Sequence[Value], at: int) -> None:
        self.code, self.floor, self.known = code, floor, known
        self._here, self._at = here, at

    def load(self, array: int) -> Value:
        self.code.prefetch_read(self.code.at(self._here[array], self._at + PREFETCH_DISTANCE, I8), 1)
        return self.code.load(self._here[array], self._at)

    def store(self, value: Value, array: int) -> None:
        self.code.store(value, self._here[array], self._at)

    def centred(self) -> Value:
        """x minus the mean of the channel."""
        return self.code.builder.fsub(self.load(X), self.known[MEAN])

    def normalised(self, centred: Value) -> Value:
        """Normalised, scaled and shifted value of a centred x."""
        return self.code.multiply_add(centred, self.known[FACTOR], self.known[SHIFT])

    def clamp(self, value: Value) -> Value:
        """The maximum of a value and the floor; NaN stays NaN."""
        below = self.code.builder.fcmp_ordered("<", value, self.floor)
        return self.code.builder.select(below, self.floor, value)

    def masked_gradient(self, gradient: Value, y: Value) -> Value:
        """The gradient where y is above the floor, else 0."""
        stopped = self.code.builder.fcmp_ordered("<=", y, self.floor)
        return self.code.builder.select(stopped, self.code.zero, gradient)


def floor(one: Any, relu: bool) -> Any:
    """Lower bound of results, of the type of `one`: 0 with a ReLU, else -inf."""
    return one - one if relu else -math.inf * one


Formula = Callable[[Pixel, Sequence[Value]], Sequence[Value]]  # (pixel, sums so far) -> sums with this pixel


def _moments(pixel: Pixel, sums: Sequence[Value]) -> Sequence[Value]:
    x = pixel.centred()
    return [pixel.code.builder.fadd(sums[0], x), pixel.code.multiply_add(x, x, sums[1])]


def _apply(pixel: Pixel, sums: Sequence[Value]) -> Sequence[Value]:
    pixel.store(pixel.clamp(pixel.normalised(pixel.centred())), Y)
    return sums


def _apply_with(pixel: Pixel, sums: Sequence[Value]) -> Sequence[Value]:
    shifted = pixel.code.builder.fadd(pixel.normalised(pixel.centred()), pixel.load(OTHER))
    pixel.store(pixel.clamp(shifted), Y)
    return sums


def _sum(pixel: Pixel, sums: Sequence[Value]) -> Sequence[Value]:
    x = pixel.centred()
    return _gradient_sums(pixel, x, pixel.masked_gradient(pixel.load(OTHER), pixel.normalised(x)), sums)


def _sum_with(pixel: Pixel, sums: Sequence[Value]) -> Sequence[Value]:
    return _gradient_sums(pixel, pixel.centred(), pixel.masked_gradient(pixel.load(OTHER), pixel.load(Y)), sums)


def _gradient_sums(pixel: Pixel, x: Value, gradient: Value, sums: Sequence[Value]) -> Sequence[Value]:
    return [pixel.code.builder.fadd(sums[0], gradient), pixel.code.multiply_add(x, gradient, sums[1])]


def _gradient(pixel: Pixel, sums: Sequence[Value]) -> Sequence[Value]:
    x = pixel.centred()
    return _store_gradient(pixel, x, pixel.masked_gradient(pixel.load(OTHER), pixel.normalised(x)), sums)


def _gradient_with(pixel: Pixel, sums: Sequence[Value]) -> Sequence[Value]:
    gradient = pixel.masked_gradient(pixel.load(OTHER), pixel.load(Y))
    pixel.store(gradient, DOTHER)
    return _store_gradient(pixel, pixel.centred(), gradient, sums)


def _store_gradient(pixel: Pixel, x: Value, gradient: Value, sums: Sequence[Value]) -> Sequence[Value]:
    level = pixel.code.multiply_add(x, pixel.known[TILT], pixel.known[LEVEL])
    pixel.store(pixel.code.multiply_add(gradient, pixel.known[SLOPE], level), DX)
    return sums


def _pass(formula: Formula, vectors: int, sums: int) -> Any:
    """The instruction that applies a formula to `vectors` vectors of channels of all pixels, and stores the sums."""

    @instruction
    def run_pass(
        typingctx: Any, floor: Any, count: Any, pitch: Any, table: Any, apart: Any, arrays: Any, out: Any
    ) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            code = Code(builder, floor)
            least, count, pitch, table, apart, arrays, out = arguments
            least, width = code.splat(least), code.lanes * code.itemsize
            firsts = [code.pointer(builder.extract_value(arrays, array)) for array in ARRAYS]
            rows = [code.at(code.pointer(table), builder.mul(apart, I64(row)), I8) for row in ROWS]
            known = [[code.load(row, at * width) for row in rows] for at in range(vectors)]

            def iteration(index: Value, carried: Vectors) -> Vectors:
                here = [code.at(first, builder.mul(index, pitch), I8) for first in firsts]
                pixels = (Pixel(code, least, known[at], here, at * width) for at in range(vectors))
                return [list(formula(pixel, carried_sums)) for pixel, carried_sums in zip(pixels, carried, strict=True)]

            _, totals = code.loop(I64(0), count, 1, [[code.zero] * sums for _ in range(vectors)], iteration)
            for place in range(sums):
                to = code.at(code.pointer(out), builder.mul(apart, I64(place)), I8)
                for at in range(vectors):
                    code.store(totals[at][place], to, at * width)
            return context.get_dummy_value()

        return types.void(floor, *[types.intp] * 4, arrays, types.intp), generate

    return run_pass


_moments_wide, _moments_narrow = (_pass(_moments, width, 2) for width in (WIDE, 1))
apply_wide, apply_narrow = (_pass(_apply, width, 0) for width in (WIDE, 1))
apply_with_wide, apply_with_narrow = (_pass(_apply_with, width, 0) for width in (WIDE, 1))
_sum_wide, _sum_narrow = (_pass(_sum, width, 2) for width in (WIDE, 1))
_sum_with_wide, _sum_with_narrow = (_pass(_sum_with, width, 2) for width in (WIDE, 1))
_gradient_wide, _gradient_narrow = (_pass(_gradient, width, 0) for width in (WIDE, 1))
_gradient_with_wide, _gradient_with_narrow = (_pass(_gradient_with, width, 0) for width in (WIDE, 1))


@compiled
def apply_pass(
    kind: Any, floor: Any, count: Any, pitch: Any, channels: Any, table: Any, apart: Any, arrays: Any, out: Any
) -> None:
    """Run a pass over all channels of `count` pixels of the type of `floor`; sums go to `out`, laid out as a table."""
    size = bytes_of(floor)
    lanes, channel = LINE // size, 0
    while channel < channels:
        at = channel * size
        carried_sums = (arrays[0] + at, arrays[1] + at, arrays[2] + at, arrays[3] + at, arrays[4] + at)
        if channel + WIDE * lanes <= channels:
            _wide(kind, floor, count, pitch, table + at, apart, carried_sums, out + at)
            channel += WIDE * lanes
        else:
            _narrow(kind, floor, count, pitch, table + at, apart, carried_sums, out + at)
            channel += lanes


@compiled
def _wide(
    kind: Any, floor: Any, count: Any, pitch: Any, table: Any, apart: Any, arrays: Any, out: Any
) -> None:
    if kind == MOMENTS:
        _moments_wide(floor, count, pitch, table, apart, arrays, out)
    elif kind == APPLY:
        apply_wide(floor, count, pitch, table, apart, arrays, out)
    elif kind == APPLY_WITH:
        apply_with_wide(floor, count, pitch, table, apart, arrays, out)
    elif kind == SUM:
        _sum_wide(floor, count, pitch, table, apart, arrays, out)
    elif kind == SUM_WITH:
        _sum_with_wide(floor, count, pitch, table, apart, arrays, out)
    elif kind == GRADIENT:
        _gradient_wide(floor, count, pitch, table, apart, arrays, out)
    else:
        _gradient_with_wide(floor, count, pitch, table, apart, arrays, out)


@compiled
def _narrow(
    kind: Any, floor: Any, count: Any, pitch: Any, table: Any, apart: Any, arrays: Any, out: Any
) -> None:
    if kind == MOMENTS:
        _moments_narrow(floor, count, pitch, table, apart, arrays, out)
    elif kind == APPLY:
        apply_narrow(floor, count, pitch, table, apart, arrays, out)
    elif kind == APPLY_WITH:
        apply_with_narrow(floor, count, pitch, table, apart, arrays, out)
    elif kind == SUM:
        _sum_narrow(floor, count, pitch, table, apart, arrays, out)
    elif kind == SUM_WITH:
        _sum_with_narrow(floor, count, pitch, table, apart, arrays, out)
    elif kind == GRADIENT:
        _gradient_narrow(floor, count, pitch, table, apart, arrays, out)
    else:
        _gradient_with_narrow(floor, count, pitch, table, apart, arrays, out)
