"""Vector instructions of quantisation: largest magnitude, rounding to int8, rescaling of int32 sums.

Adding 1.5 * 2^23 rounds an fp32 number below 2^22 to the nearest integer, ties to even, and leaves it in the low bits.
The functions process whole vectors only; the caller handles the remaining numbers one by one.
"""

from typing import Any

from llvmlite import ir
from numba import types

from .simd import I8, I32, I64, Code, Value, Vectors, instruction

WHOLE = 1.5 * 2.0**23
MAGNITUDE = 0x7FFFFFFF  # bits of a number except the sign
AT_ONCE = 4  # vectors of an iteration, to hide the latency of the instructions


@instruction
def largest_bits(typingctx: Any, source: Any, count: Any) -> Any:
    """Bits of the largest magnitude of float32[count], over whole groups of AT_ONCE vectors. NaN is above all."""

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> Any:
        code = Code(builder, types.int32)
        come, step = code.pointer(arguments[0]), AT_ONCE * code.lanes
        mask = code.splat(I32(MAGNITUDE))

        def body(index: Value, sums: Vectors) -> Vectors:
            here = code.at(come, builder.mul(index, I64(code.itemsize)), I8)
            found = (code.load(here, place * code.lanes * code.itemsize) for place in range(AT_ONCE))
            return [[_larger(code, builder.and_(one, mask), old) for one, old in zip(found, sums[0], strict=True)]]

        (vectors,) = code.loop(I64(0), arguments[1], step, [[code.zero] * AT_ONCE], body)[1]
        for vector in vectors[1:]:
            vectors[0] = _larger(code, vector, vectors[0])
        lanes = [builder.extract_element(vectors[0], I32(lane)) for lane in range(code.lanes)]
        for lane in lanes[1:]:
            lanes[0] = builder.select(builder.icmp_signed(">", lane, lanes[0]), lane, lanes[0])
        return builder.sext(lanes[0], I64)

    return types.intp(types.intp, types.intp), generate


def _larger(code: Code, one: Value, other: Value) -> Value:
    return code.builder.select(code.builder.icmp_signed(">", one, other), one, other)


@instruction
def bytes_of_run(typingctx: Any, target: Any, source: Any, count: Any, factor: Any, flipped: Any) -> Any:
    """Round float32[count] * factor to int8 and flip bits; returns how many numbers were converted, in whole vectors.
    """

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> Any:
        code = Code(builder, types.float32)
        target, source, count, factor, flipped = arguments
        narrow = ir.VectorType(I8, code.lanes)
        bits = Code(builder, types.int32).splat(builder.zext(flipped, I32))

        def body(index: Value, sums: Vectors) -> Vectors:
            whole = _whole(code, source, index, factor)
            flips = builder.xor(builder.bitcast(whole, bits.type), bits)
            place = code.at(code.at(code.pointer(target), index, I8), 0, narrow)
            builder.store(builder.trunc(flips, narrow), place).align = 1
            return sums

        return code.loop(I64(0), count, code.lanes, [], body)[0]

    return types.intp(*[types.intp] * 3, types.float32, types.uint8), generate


@instruction
def nearest_of_run(typingctx: Any, target: Any, source: Any, count: Any, factor: Any, scale: Any) -> Any:
    """Round float32[count] * factor to integers and multiply by scale; returns how many numbers, in whole vectors."""

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> Any:
        code = Code(builder, types.float32)
        target, source, count, factor, scale = arguments

        def body(index: Value, sums: Vectors) -> Vectors:
            whole = builder.fsub(_whole(code, source, index, factor), code.splat(_number(WHOLE)))
            offset = builder.mul(index, I64(code.itemsize))
            code.store(builder.fmul(whole, code.splat(scale)), code.pointer(target), offset)
            return sums

        return code.loop(I64(0), count, code.lanes, [], body)[0]

    return types.intp(*[types.intp] * 3, types.float32, types.float32), generate


def _whole(code: Code, source: Value, index: Value, factor: Value) -> Value:
    """WHOLE + number * factor."""
    offset = code.builder.mul(index, I64(code.itemsize))
    product = code.builder.fmul(code.load(code.pointer(source), offset), code.splat(factor))
    return code.builder.fadd(product, code.splat(_number(WHOLE)))


def _number(value: float) -> Value:
    return ir.Constant(ir.FloatType(), value)


@instruction
def scaled_run(typingctx: Any, sums: Any, taken_off: Any, factors: Any, count: Any) -> Any:
    """In place, float32 (sum - int32[count]) * float32[count] of int32[count]; returns how many, in whole vectors."""

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> Any:
        whole, code = Code(builder, types.int32), Code(builder, types.float32)
        here, less, by = (code.pointer(address) for address in arguments[:3])

        def body(index: Value, sums: Vectors) -> Vectors:
            offset = builder.mul(index, I64(code.itemsize))
            number = builder.sitofp(builder.sub(whole.load(here, offset), whole.load(less, offset)), code.vector)
            code.store(builder.fmul(number, code.load(by, offset)), here, offset)
            return sums

        return code.loop(I64(0), arguments[3], code.lanes, [], body)[0]

    return types.intp(*[types.intp] * 4), generate
