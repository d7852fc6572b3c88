"""Vector passes over pixels by channel: the coefficients of a channel stay in registers while its pixels stream by.

Pixels lie `pitch` bytes apart, with contiguous channels. A table holds the coefficients: one row for each of ROWS,
`apart` bytes from the next, with one number a channel. Channels are a whole number of vectors.
"""

import math
from collections.abc import Callable, Sequence
from functools import partial, reduce
from itertools import product
from typing import Any

from numba import types

from .compiled import compiled
from .load_store import bytes_of
from .packing import LINE
from .simd import I8, I64, Code, Value, Vectors, instruction

ROWS = MEAN, FACTOR, SHIFT, SLOPE, TILT, LEVEL = range(6)  # rows of the table
ARRAYS = X, OTHER, Y, DX, DOTHER = range(5)  # OTHER: the addend, or in a backward pass the gradient of y
# Passes. WITH: with an addend. ADDED: DOTHER is added to OTHER first, and the sum stored in DX.
MOMENTS, APPLY, APPLY_WITH, SUM, SUM_WITH, GRADIENT, GRADIENT_WITH, ADDED, SUM_ADDED, SUM_WITH_ADDED = range(10)
SUMS = MOMENTS, SUM, SUM_WITH, SUM_ADDED, SUM_WITH_ADDED  # passes that add to sums
PREFETCH_DISTANCE = 1024  # bytes; beyond the end of a page, where the hardware prefetcher stops
WIDE = 4  # vectors of channels at a time
CACHED = 2**14  # bytes of pixels of a block of a pass, all channels of which stay in L1


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
    return type(one)(0.0) if relu else type(one)(-math.inf)


floor_of = compiled(floor)  # for compiled functions


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


def _sum_added(pixel: Pixel, sums: Sequence[Value]) -> Sequence[Value]:
    x = pixel.centred()
    return _gradient_sums(pixel, x, pixel.masked_gradient(_added_gradient(pixel), pixel.normalised(x)), sums)


def _sum_with_added(pixel: Pixel, sums: Sequence[Value]) -> Sequence[Value]:
    return _gradient_sums(pixel, pixel.centred(), pixel.masked_gradient(_added_gradient(pixel), pixel.load(Y)), sums)


def _added(pixel: Pixel, sums: Sequence[Value]) -> Sequence[Value]:
    _added_gradient(pixel)
    return sums


def _added_gradient(pixel: Pixel) -> Value:
    """The sum of two gradients, which is stored."""
    gradient = pixel.code.builder.fadd(pixel.load(OTHER), pixel.load(DOTHER))
    pixel.store(gradient, DX)
    return gradient


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


_FORMULAS: dict[int, tuple[Formula, int]] = {  # by pass, with the number of its sums
    MOMENTS: (_moments, 2), APPLY: (_apply, 0), APPLY_WITH: (_apply_with, 0), SUM: (_sum, 2), SUM_WITH: (_sum_with, 2),
    GRADIENT: (_gradient, 0), GRADIENT_WITH: (_gradient_with, 0), ADDED: (_added, 0), SUM_ADDED: (_sum_added, 2),
    SUM_WITH_ADDED: (_sum_with_added, 2),
}


def _passes(vectors: int) -> Any:
    """The instruction that runs a pass on `vectors` vectors of channels of all pixels, and adds to its sums."""

    @instruction
    def run_pass(
        typingctx: Any, kind: Any, floor: Any, count: Any, pitch: Any, table: Any, apart: Any, arrays: Any, out: Any
    ) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            (chosen, *given), code = arguments, Code(builder, floor)
            cases = {kind: partial(_emit, code, *formula, vectors, *given) for kind, formula in _FORMULAS.items()}
            code.switch(chosen, cases)
            return context.get_dummy_value()

        return types.void(types.intp, floor, *[types.intp] * 4, arrays, types.intp), generate

    return run_pass


def _emit(
    code: Code, formula: Formula, sums: int, vectors: int, least: Value, count: Value, pitch: Value, table: Value,
    apart: Value, arrays: Value, out: Value,
) -> None:
    """Emit the loop over all pixels: so many at a time that WIDE sums are independent, as each waits for the last."""
    builder, width, least = code.builder, code.lanes * code.itemsize, code.splat(least)
    firsts = [code.pointer(builder.extract_value(arrays, array)) for array in ARRAYS]

    def row(first: Value, number: int) -> Value:
        return code.at(code.pointer(first), builder.mul(apart, I64(number)), I8)

    known = [[code.load(row(table, number), at * width) for number in ROWS] for at in range(vectors)]

    def iteration(index: Value, carried: Vectors) -> Vectors:
        changed = list(carried)
        for step, at in product(range(len(carried) // vectors), range(vectors)):
            here = [code.at(first, builder.mul(builder.add(index, I64(step)), pitch), I8) for first in firsts]
            pixel = Pixel(code, least, known[at], here, at * width)
            changed[step * vectors + at] = list(formula(pixel, carried[step * vectors + at]))
        return changed

    at_once = WIDE // vectors
    before = [[code.load(row(out, place), at * width) for place in range(sums)] for at in range(vectors)]
    apart_sums = [*before, *([code.zero] * sums for _ in range((at_once - 1) * vectors))]
    index, many = code.loop(I64(0), count, at_once, apart_sums, iteration)
    joined = [[_sum_of(builder, many[at::vectors], place) for place in range(sums)] for at in range(vectors)]
    _, totals = code.loop(index, count, 1, joined, iteration) if at_once > 1 else (index, joined)
    for at, of_vector in enumerate(totals):
        for place, total in enumerate(of_vector):
            code.store(total, row(out, place), at * width)


def _sum_of(builder: Any, sums: Vectors, place: int) -> Value:
    first, *rest = (each[place] for each in sums)
    return reduce(builder.fadd, rest, first)


_run_wide, _run_narrow = _passes(WIDE), _passes(1)


@compiled
def apply_pass(
    kind: Any, floor: Any, count: Any, pitch: Any, channels: Any, table: Any, apart: Any, arrays: Any, out: Any
) -> None:
    """Run a pass over all channels of `count` pixels of the type of `floor`, and add to sums at `out`, rows of a table.
    """
    size = bytes_of(floor)
    lanes, channel = LINE // size, 0
    while channel < channels:
        at = channel * size
        here = (arrays[0] + at, arrays[1] + at, arrays[2] + at, arrays[3] + at, arrays[4] + at)
        if channel + WIDE * lanes <= channels:
            _run_wide(kind, floor, count, pitch, table + at, apart, here, out + at)
            channel += WIDE * lanes
        else:
            _run_narrow(kind, floor, count, pitch, table + at, apart, here, out + at)
            channel += lanes
