"""Loads, stores and transposition of numbers and vectors at addresses, as functions that Numba loops call."""

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils

from .simd import I32, I64, SCALARS, Code, Value, instruction


@instruction
def bytes_of(typingctx: Any, like: Any) -> Any:
    """Bytes of a number of the type of `like`."""

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> Any:
        return I64(SCALARS[str(like)][1])

    return types.intp(like), generate


@instruction
def read(typingctx: Any, like: Any, address: Any) -> Any:
    """Load the number of the type of `like` at an address."""

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> Any:
        return builder.load(builder.inttoptr(arguments[1], SCALARS[str(like)][0].as_pointer()))

    return like(like, types.intp), generate


@instruction
def write(typingctx: Any, number: Any, address: Any) -> Any:
    """Store a number at an address."""

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> Any:
        builder.store(arguments[0], builder.inttoptr(arguments[1], arguments[0].type.as_pointer()))
        return context.get_dummy_value()

    return types.void(number, types.intp), generate


@instruction
def clear(typingctx: Any, like: Any, address: Any) -> Any:
    """Store 0 of the type of `like` at an address."""

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> Any:
        kind = SCALARS[str(like)][0]
        builder.store(ir.Constant(kind, 0), builder.inttoptr(arguments[1], kind.as_pointer()))
        return context.get_dummy_value()

    return types.void(like, types.intp), generate


@instruction
def copy_vector(typingctx: Any, like: Any, target: Any, source: Any) -> Any:
    """Copy one vector of numbers."""

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> Any:
        code = Code(builder, like)
        code.store(code.load(code.pointer(arguments[2]), 0), code.pointer(arguments[1]), 0)
        return context.get_dummy_value()

    return types.void(like, types.intp, types.intp), generate


@instruction
def add_vector(typingctx: Any, like: Any, target: Any, source: Any) -> Any:
    """Add a vector to the one at `target`."""

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> Any:
        code = Code(builder, like)
        to, come = code.pointer(arguments[1]), code.pointer(arguments[2])
        add = builder.add if code.scalar == I32 else builder.fadd
        code.store(add(code.load(to, 0), code.load(come, 0)), to, 0)
        return context.get_dummy_value()

    return types.void(like, types.intp, types.intp), generate


@instruction
def add_number(typingctx: Any, like: Any, target: Any, source: Any) -> Any:
    """Add a number to the one at `target`; Numba's own sum of two int32 is an int64."""

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> Any:
        kind = SCALARS[str(like)][0]
        to, come = (builder.inttoptr(address, kind.as_pointer()) for address in arguments[1:])
        add = builder.add if kind == I32 else builder.fadd
        builder.store(add(builder.load(to), builder.load(come)), to)
        return context.get_dummy_value()

    return types.void(like, types.intp, types.intp), generate


@instruction
def multiply_add_vector(typingctx: Any, like: Any, target: Any, a: Any, b: Any) -> Any:
    """Add the products of two vectors to the vector at `target`."""

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> Any:
        code = Code(builder, like)
        to, one, other = (code.pointer(address) for address in arguments[1:])
        code.store(code.multiply_add(code.load(one, 0), code.load(other, 0), code.load(to, 0)), to, 0)
        return context.get_dummy_value()

    return types.void(like, *[types.intp] * 3), generate


@instruction
def multiply_add_number(typingctx: Any, like: Any, target: Any, a: Any, b: Any) -> Any:
    """Add the product of two numbers to the one at `target`."""

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> Any:
        kind = SCALARS[str(like)][0]
        to, one, other = (builder.inttoptr(address, kind.as_pointer()) for address in arguments[1:])
        product = builder.fmul(builder.load(one), builder.load(other))
        builder.store(builder.fadd(product, builder.load(to)), to)
        return context.get_dummy_value()

    return types.void(like, *[types.intp] * 3), generate


@instruction
def copy_masked(typingctx: Any, like: Any, target: Any, source: Any, count: Any) -> Any:
    """Copy the first `count` numbers of a vector and store zeros for the rest; nothing beyond `count` is read."""

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> Any:
        code = Code(builder, like)
        _, target, source, count = arguments
        code.store(_masked_load(code, source, count), code.pointer(target), 0)
        return context.get_dummy_value()

    return types.void(like, types.intp, types.intp, types.intp), generate


def _masked_load(code: Code, source: Value, count: Value) -> Value:
    lanes, builder = code.lanes, code.builder
    numbers, truths = ir.VectorType(I32, lanes), ir.VectorType(ir.IntType(1), lanes)
    first = builder.insert_element(ir.Constant(numbers, ir.Undefined), builder.trunc(count, I32), I32(0))
    zeros = ir.Constant(numbers, [0] * lanes)
    counts = builder.shuffle_vector(first, ir.Constant(numbers, ir.Undefined), zeros)
    mask = builder.icmp_signed("<", ir.Constant(numbers, [*range(lanes)]), counts)
    place = code.at(code.pointer(source), 0, code.vector)
    kind = f"v{lanes}{'i' if code.scalar == I32 else 'f'}{8 * code.itemsize}"
    signature = ir.FunctionType(code.vector, [place.type, I32, truths, code.vector])
    load = cgutils.get_or_insert_function(builder.module, signature, f"llvm.masked.load.{kind}.p0")
    return builder.call(load, [place, I32(code.itemsize), mask, code.zero])


@instruction
def transpose_block(typingctx: Any, like: Any, target: Any, apart: Any, source: Any, stride: Any) -> Any:
    """Transpose `lanes` x `lanes` numbers in registers; rows `stride` bytes apart become columns `apart` bytes apart.
    """

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> Any:
        code = Code(builder, like)
        _, target, apart, source, stride = arguments
        come, go = code.pointer(source), code.pointer(target)
        rows = [code.load(come, builder.mul(stride, I64(row))) for row in range(code.lanes)]
        for column, vector in enumerate(_transposed(code, rows)):
            code.store(vector, go, builder.mul(apart, I64(column)))
        return context.get_dummy_value()

    return types.void(like, *[types.intp] * 4), generate


def _transposed(code: Code, rows: list[Value]) -> list[Value]:
    """Transposition by shuffles: exchange halves, then quarters within them, down to single numbers."""
    lanes, distance = code.lanes, code.lanes // 2
    while distance:
        upper = [lane if not lane & distance else lanes + lane - distance for lane in range(lanes)]
        lower = [lane + distance if not lane & distance else lanes + lane for lane in range(lanes)]
        changed = list(rows)
        for row in (row for row in range(lanes) if not row & distance):
            pair = rows[row], rows[row + distance]
            changed[row], changed[row + distance] = code.shuffle(*pair, upper), code.shuffle(*pair, lower)
        rows, distance = changed, distance // 2
    return rows
