"""Micro-kernel of depth-wise layers: neighbouring pixels of a row, each number of the source read once a row of taps.

A number is added to the sums of all pixels that see it while it is in a register: half of the products or fewer need a
load, where a load for each would be what limits them. Pixels in the padding are read from zeros.
"""

from collections.abc import Iterator
from functools import partial
from itertools import product
from typing import Any

from llvmlite import ir
from numba import types

from ...cpu.simd import I8, I64, Code, Value, Vectors, instruction

KINDS = ((1, 1), (2, 1), (3, 1), (5, 1), (3, 2), (5, 2))  # taps of a row, and stride
HEIGHTS = (8, 7, 6, 5, 4, 3, 2, 1)  # pixels of a tile: as many sums as hide the latency
CASES = 16  # more than HEIGHTS has numbers


def kind_of(taps: int, stride: int) -> int:
    """The number of a kind, to which the height is added; ValueError if there is no such kind."""
    return KINDS.index((taps, stride)) * CASES


@instruction
def multiply_row(
    typingctx: Any, like: Any, case: Any, x: Any, steps: Any, inside: Any, zeros: Any, rows: Any, w: Any, apart: Any,
    y: Any, pixel: Any,
) -> Any:
    """Compute neighbouring pixels of y, a vector of channels, summed over `rows` rows of taps; case: kind + height.

    x: what the first pixel sees through the first tap; steps: bytes to the next row of taps, and to the next pixel of
    the source. inside: pixels of the source from the first on of which the first is in the image, and the first is
    not any more; the others are read at `zeros`. apart: bytes from the weights of a row of taps and of a tap to those
    of the next. Pixels of y are `pixel` bytes apart.
    """

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> Any:
        code, (_, case, *given) = Code(builder, like), arguments
        emits = {
            kind_of(*kind) + height: partial(_emit_row, code, *kind, height, *given)
            for kind, height in product(KINDS, HEIGHTS)
        }
        code.switch(case, emits)
        return context.get_dummy_value()

    pair, word = types.UniTuple(types.intp, 2), types.intp
    return types.void(like, word, word, pair, pair, word, word, word, pair, word, word), generate


def _emit_row(
    code: Code, taps: int, stride: int, height: int, x: Value, steps: Value, inside: Value, zeros: Value, rows: Value,
    w: Value, apart: Value, y: Value, pixel: Value,
) -> None:
    builder = code.builder
    (x_down, x_right), (low, high), (w_down, w_right) = (
        [builder.extract_value(pair, place) for place in (0, 1)] for pair in (steps, inside, apart)
    )
    span = (height - 1) * stride + taps

    def row(index: Value, sums: Vectors) -> Vectors:
        seen, by = builder.add(x, builder.mul(index, x_down)), builder.add(w, builder.mul(index, w_down))
        weights = [code.load(code.pointer(builder.add(by, builder.mul(w_right, I64(tap)))), 0) for tap in range(taps)]
        added = list(sums[0])
        for place in range(span):
            users = [*_users(place, taps, stride, height)]
            number = _seen(code, seen, x_right, place, (taps, span), (low, high), zeros) if users else None
            for output, tap in users:
                added[output] = code.multiply_add(number, weights[tap], added[output])
        return [added]

    ((*sums,),) = code.loop(I64(0), rows, 1, [[code.zero] * height], row)[1]
    for place, total in enumerate(sums):
        code.store(total, code.at(code.pointer(y), builder.mul(pixel, I64(place)), I8), 0)


def _seen(
    code: Code, first: Value, right: Value, place: int, sizes: tuple[int, int], inside: tuple[Value, Value],
    zeros: Value,
) -> Value:
    """The numbers of a pixel, or zeros where it is not inside, which only the outer ones can be."""
    builder, (taps, span), (low, high) = code.builder, sizes, inside
    at = builder.add(first, builder.mul(right, I64(place)))
    if place < taps - 1:
        at = builder.select(builder.icmp_signed(">=", I64(place), low), at, zeros)
    if place > span - taps:
        at = builder.select(builder.icmp_signed("<", I64(place), high), at, zeros)
    return code.load(code.pointer(at), 0)


def _users(place: int, taps: int, stride: int, height: int) -> Iterator[tuple[int, int]]:
    """The outputs that see a pixel of the source, with the tap through which each sees it."""
    for tap in range(taps):
        output, left = divmod(place - tap, stride)
        if left == 0 and 0 <= output < height:
            yield output, tap
