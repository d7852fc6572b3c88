"""Vector instructions on rows of a tile of scores: softmax with a running maximum and sum, and its gradient.

A row has `visible` scores, of base 2 and scaled. What follows up to `width`, a whole number of vectors, is masked: it
becomes 0. Rows are allocated a vector longer than that.
"""

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types

from ...cpu.exponential import number, power_of_two
from ...cpu.simd import I8, I32, I64, Code, Value, Vectors, instruction
from ...cpu.vector_sums import over_lanes

AT_ONCE = 4  # vectors of an iteration that looks for the maximum
LOWEST = -3.0e38  # initial maximum: -inf minus itself would be NaN
Body = Callable[[Value, Value, Callable[[Value], Value]], Value]  # (byte offset, sum, mask) -> sum


@instruction
def softmax_row(typingctx: Any, like: Any, row: Any, visible: Any, width: Any, statistics: Any) -> Any:
    """Replace scores by powers of two of their differences to the maximum so far, which is updated with the sum.

    statistics: address of maximum and sum. Returns the factor of all that was added up before.
    """

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> Any:
        code = Code(builder, like)
        _, row, visible, width, statistics = arguments
        row, kept = code.pointer(row), code.at(code.pointer(statistics), 0, code.scalar)
        before = builder.load(kept)
        total = builder.gep(kept, [I64(1)])
        highest = _larger(code, code.splat(before), code.splat(_highest(code, row, visible)))

        def body(at: Value, sum_: Value, shown: Callable[[Value], Value]) -> Value:
            power = shown(power_of_two(code, builder.fsub(code.load(row, at), highest)))
            code.store(power, row, at)
            return builder.fadd(sum_, power)

        sum_ = over_lanes(code, _along_row(code, visible, width, body), builder.fadd)
        factor = _first(code, power_of_two(code, builder.fsub(code.splat(before), highest)))
        builder.store(_first(code, highest), kept)
        builder.store(builder.fadd(builder.fmul(builder.load(total), factor), sum_), total)
        return factor

    return like(like, *[types.intp] * 4), generate


@instruction
def gradient_row(
    typingctx: Any, like: Any, scores: Any, gradients: Any, visible: Any, width: Any, log_sum: Any, mean: Any
) -> Any:
    """Replace scores by probabilities p, and gradients g of the probabilities by those of the scores, p (g - mean).

    log_sum: of base 2. mean: sum of p g over the row.
    """

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> Any:
        code = Code(builder, like)
        _, scores, gradients, visible, width, log_sum, mean = arguments
        of_scores, of_gradients = code.pointer(scores), code.pointer(gradients)
        log_sum, mean = code.splat(log_sum), code.splat(mean)

        def body(at: Value, sum_: Value, shown: Callable[[Value], Value]) -> Value:
            power = power_of_two(code, builder.fsub(code.load(of_scores, at), log_sum))
            code.store(shown(power), of_scores, at)
            centred = builder.fsub(code.load(of_gradients, at), mean)
            code.store(shown(builder.fmul(power, centred)), of_gradients, at)
            return sum_

        _along_row(code, visible, width, body)
        return context.get_dummy_value()

    return types.void(like, *[types.intp] * 4, like, like), generate


@instruction
def scale_run(typingctx: Any, factor: Any, target: Any, source: Any, count: Any) -> Any:
    """target = factor source, of whole vectors of numbers."""

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> Any:
        code = Code(builder, factor)
        by, target, source = code.splat(arguments[0]), *(code.pointer(each) for each in arguments[1:3])

        def body(index: Value, sums: Vectors) -> Vectors:
            at = builder.mul(index, I64(code.itemsize))
            code.store(builder.fmul(code.load(source, at), by), target, at)
            return sums

        code.loop(I64(0), arguments[3], code.lanes, [], body)
        return context.get_dummy_value()

    return types.void(factor, *[types.intp] * 3), generate


@instruction
def dot_run(typingctx: Any, like: Any, one: Any, other: Any, count: Any) -> Any:
    """Sum of the products of numbers, in whole vectors."""

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> Any:
        code = Code(builder, like)
        one, other = (code.pointer(each) for each in arguments[1:3])

        def body(index: Value, sums: Vectors) -> Vectors:
            at = builder.mul(index, I64(code.itemsize))
            return [[code.multiply_add(code.load(one, at), code.load(other, at), sums[0][0])]]

        ((sum_,),) = code.loop(I64(0), arguments[3], code.lanes, [[code.zero]], body)[1]
        return over_lanes(code, sum_, builder.fadd)

    return like(like, *[types.intp] * 3), generate


def _along_row(code: Code, visible: Value, width: Value, body: Body) -> Value:
    """The vector of sums of a body over the row: whole vectors of visible numbers, then those with masked ones."""
    builder = code.builder

    def whole(index: Value, sums: Vectors) -> Vectors:
        return [[body(_offset(code, index), sums[0][0], lambda vector: vector)]]

    def masked(index: Value, sums: Vectors) -> Vectors:
        lane = _lanes_before(code, builder.sub(visible, index))
        return [[body(_offset(code, index), sums[0][0], lambda vector: builder.select(lane, vector, code.zero))]]

    index, sums = code.loop(I64(0), visible, code.lanes, [[code.zero]], whole)
    ((sum_,),) = code.loop(index, width, code.lanes, sums, masked)[1]
    return sum_


def _highest(code: Code, row: Value, visible: Value) -> Value:
    """The largest visible number of a row."""
    lowest = code.splat(number(LOWEST))

    def body(vectors: int) -> Callable[[Value, Vectors], Vectors]:
        def larger(index: Value, sums: Vectors) -> Vectors:
            here = code.at(row, _offset(code, index), I8)
            loaded = [code.load(here, place * code.lanes * code.itemsize) for place in range(vectors)]
            return [[_larger(code, one, old) for one, old in zip(loaded, sums[0], strict=False)] + sums[0][vectors:]]

        return larger

    index, sums = code.loop(I64(0), visible, AT_ONCE * code.lanes, [[lowest] * AT_ONCE], body(AT_ONCE))
    index, ((first, *others),) = code.loop(index, visible, code.lanes, sums, body(1))
    rest = _lanes_before(code, code.builder.sub(visible, index))
    last = code.builder.select(rest, code.load(row, _offset(code, index)), lowest)
    for vector in (*others, last):
        first = _larger(code, vector, first)
    return over_lanes(code, first, lambda a, b: _larger(code, a, b))


def _offset(code: Code, index: Value) -> Value:
    return code.builder.mul(index, I64(code.itemsize))


def _lanes_before(code: Code, count: Value) -> Value:
    """Mask of the lanes below a count."""
    numbers = Code(code.builder, types.int32)
    lanes = ir.Constant(numbers.vector, [*range(code.lanes)])
    return code.builder.icmp_signed("<", lanes, numbers.splat(code.builder.trunc(count, I32)))


def _larger(code: Code, one: Value, other: Value) -> Value:
    """The larger numbers."""
    return code.builder.select(code.builder.fcmp_ordered(">", one, other), one, other)


def _first(code: Code, vector: Value) -> Value:
    return code.builder.extract_element(vector, I32(0))
