"""Passes over pixels, channel by channel: what belongs to a channel stays in registers while its pixels go by.

Pixels lie `pitch` bytes apart, their channels side by side. Of each channel a table has numbers: first all channels'
first ones, `apart` bytes on all their second ones, and so on. Channels are whole vectors.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

from numba import types

from .compiled import compiled
from .load_store import bytes_of
from .packing import LINE
from .simd import I8, I64, Code, Value, Vectors, instruction

ROWS = MEAN, FACTOR, SHIFT, SLOPE, TILT, LEVEL = range(6)  # what the table has of each channel
ARRAYS = X, OTHER, Y, DX, DOTHER = range(5)  # `OTHER` is what is added to x, and backwards the gradient of y
MOMENTS, APPLY, APPLY_WITH, SUM, SUM_WITH, GRADIENT, GRADIENT_WITH = range(7)  # passes; with what is added, or without
AHEAD = 1024  # bytes: what will be read is brought near, also where a page of memory ends
WIDE = 4  # vectors of channels at a time


class Pixel:
    """A vector of channels of one pixel, as a formula sees it: the arrays there, and what the table has."""

    def __init__(self, code: Code, floor: Value, known: Sequence[Value], here: Sequence[Value], at: int) -> None:
        self.code, self.floor, self.known = code, floor, known
        self._here, self._at = here, at

    def load(self, array: int) -> Value:
        self.code.expect(self.code.at(self._here[array], self._at + AHEAD, I8), 1)
        return self.code.load(self._here[array], self._at)

    def store(self, value: Value, array: int) -> None:
        self.code.store(value, self._here[array], self._at)

    def centred(self) -> Value:
        """x, less the channel's mean."""
        return self.code.builder.fsub(self.load(X), self.known[MEAN])

    def normalised(self, centred: Value) -> Value:
        """What a centred x becomes before anything is added."""
        return self.code.multiply_add(centred, self.known[FACTOR], self.known[SHIFT])

    def at_least(self, value: Value) -> Value:
        """The floor in place of what is below it; what is no number stays so."""
        below = self.code.builder.fcmp_ordered("<", value, self.floor)
        return self.code.builder.select(below, self.floor, value)

    def passed(self, gradient: Value, y: Value) -> Value:
        """A gradient as far as y is above the floor."""
        stopped = self.code.builder.fcmp_ordered("<=", y, self.floor)
        return self.code.builder.select(stopped, self.code.zero, gradient)


def floor(one: Any, relu: bool) -> Any:
    """What results are at least, of the type of `one`."""
    return one - one if relu else -math.inf * one


Formula = Callable[[Pixel, Sequence[Value]], Sequence[Value]]  # from the sums so far to those with this pixel


def _moments(pixel: Pixel, sums: Sequence[Value]) -> Sequence[Value]:
    x = pixel.centred()
    return [pixel.code.builder.fadd(sums[0], x), pixel.code.multiply_add(x, x, sums[1])]


def _apply(pixel: Pixel, sums: Sequence[Value]) -> Sequence[Value]:
    pixel.store(pixel.at_least(pixel.normalised(pixel.centred())), Y)
    return sums


def _apply_with(pixel: Pixel, sums: Sequence[Value]) -> Sequence[Value]:
    whole = pixel.code.builder.fadd(pixel.normalised(pixel.centred()), pixel.load(OTHER))
    pixel.store(pixel.at_least(whole), Y)
    return sums


def _sum(pixel: Pixel, sums: Sequence[Value]) -> Sequence[Value]:
    x = pixel.centred()
    return _added(pixel, x, pixel.passed(pixel.load(OTHER), pixel.normalised(x)), sums)


def _sum_with(pixel: Pixel, sums: Sequence[Value]) -> Sequence[Value]:
    return _added(pixel, pixel.centred(), pixel.passed(pixel.load(OTHER), pixel.load(Y)), sums)


def _added(pixel: Pixel, x: Value, gradient: Value, sums: Sequence[Value]) -> Sequence[Value]:
    return [pixel.code.builder.fadd(sums[0], gradient), pixel.code.multiply_add(x, gradient, sums[1])]


def _gradient(pixel: Pixel, sums: Sequence[Value]) -> Sequence[Value]:
    x = pixel.centred()
    return _brought(pixel, x, pixel.passed(pixel.load(OTHER), pixel.normalised(x)), sums)


def _gradient_with(pixel: Pixel, sums: Sequence[Value]) -> Sequence[Value]:
    gradient = pixel.passed(pixel.load(OTHER), pixel.load(Y))
    pixel.store(gradient, DOTHER)
    return _brought(pixel, pixel.centred(), gradient, sums)


def _brought(pixel: Pixel, x: Value, gradient: Value, sums: Sequence[Value]) -> Sequence[Value]:
    level = pixel.code.multiply_add(x, pixel.known[TILT], pixel.known[LEVEL])
    pixel.store(pixel.code.multiply_add(gradient, pixel.known[SLOPE], level), DX)
    return sums


def _pass(formula: Formula, vectors: int, sums: int) -> Any:
    """The instruction that applies a formula to `vectors` vectors of channels of all pixels, and stores their sums."""

    @instruction
    def go(typingctx: Any, floor: Any, count: Any, pitch: Any, table: Any, apart: Any, arrays: Any, out: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            code = Code(builder, floor)
            least, count, pitch, table, apart, arrays, out = arguments
            least, width = code.spread(least), code.lanes * code.itemsize
            firsts = [code.pointer(builder.extract_value(arrays, array)) for array in ARRAYS]
            rows = [code.at(code.pointer(table), builder.mul(apart, I64(row)), I8) for row in ROWS]
            known = [[code.load(row, at * width) for row in rows] for at in range(vectors)]

            def turn(index: Value, carried: Vectors) -> Vectors:
                here = [code.at(first, builder.mul(index, pitch), I8) for first in firsts]
                pixels = (Pixel(code, least, known[at], here, at * width) for at in range(vectors))
                return [list(formula(pixel, own)) for pixel, own in zip(pixels, carried, strict=True)]

            _, found = code.repeat(I64(0), count, 1, [[code.zero] * sums for _ in range(vectors)], turn)
            for place in range(sums):
                to = code.at(code.pointer(out), builder.mul(apart, I64(place)), I8)
                for at in range(vectors):
                    code.store(found[at][place], to, at * width)
            return context.get_dummy_value()

        return types.void(floor, *[types.intp] * 4, arrays, types.intp), generate

    return go


_moments_wide, _moments_narrow = (_pass(_moments, width, 2) for width in (WIDE, 1))
apply_wide, apply_narrow = (_pass(_apply, width, 0) for width in (WIDE, 1))
apply_with_wide, apply_with_narrow = (_pass(_apply_with, width, 0) for width in (WIDE, 1))
_sum_wide, _sum_narrow = (_pass(_sum, width, 2) for width in (WIDE, 1))
_sum_with_wide, _sum_with_narrow = (_pass(_sum_with, width, 2) for width in (WIDE, 1))
_gradient_wide, _gradient_narrow = (_pass(_gradient, width, 0) for width in (WIDE, 1))
_gradient_with_wide, _gradient_with_narrow = (_pass(_gradient_with, width, 0) for width in (WIDE, 1))


@compiled
def over_channels(
    kind: Any, floor: Any, count: Any, pitch: Any, channels: Any, table: Any, apart: Any, arrays: Any, out: Any
) -> None:
    """A pass of that kind over all channels of `count` pixels, of floor's type; its sums go to `out`, like a table."""
    size = bytes_of(floor)
    lanes, channel = LINE // size, 0
    while channel < channels:
        at = channel * size
        own = (arrays[0] + at, arrays[1] + at, arrays[2] + at, arrays[3] + at, arrays[4] + at)
        if channel + WIDE * lanes <= channels:
            _wide(kind, floor, count, pitch, table + at, apart, own, out + at)
            channel += WIDE * lanes
        else:
            _narrow(kind, floor, count, pitch, table + at, apart, own, out + at)
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
