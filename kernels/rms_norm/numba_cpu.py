"""RMS norm on CPUs in Numba: each row is read once from memory, and again from the cache; fp32 and fp64.

The sum of two rows before a norm, and what later readers of it add to its gradient, are computed on the way.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from llvmlite import ir
from numba import types

from ..cpu.compiled import compiled
from ..cpu.load_store import bytes_of, clear, read, write
from ..cpu.parallel import parallel_for
from ..cpu.simd import I64, Code, Value, Vectors, instruction, lanes
from ..cpu.vector_sums import over_lanes
from ..cpu.workspace import workspace


class Rows(NamedTuple):
    """Numbers of rows and of features, and eps; rows are contiguous."""

    number: int
    features: int
    eps: float


def applies(features: int, itemsize: int) -> bool:
    """Whether the features are a whole number of vectors."""
    return features > 0 and features % lanes(itemsize) == 0


class Added(NamedTuple):
    """Addresses of the rows that are added to x before the norm, and of the sums, which are filled."""

    other: int = 0
    total: int = 0


def forward(
    rows: Rows, one: Any, x: int, weight: int, y: int, factors: int, threads: int, added: Added | None = None
) -> None:
    """Fill y, and the factor 1 / root mean square of each row. Arrays, given by address, have the type of `one`."""
    _forward(one, rows, (x, *(added or Added(0, x)), weight, y, factors), threads)


def backward(
    rows: Rows,
    one: Any,
    g: int,
    x: int,
    weight: int,
    factors: int,
    dx: int,
    dweight: int,
    threads: int,
    beside: int = 0,
) -> None:
    """Fill dx and dweight from the factors of the forward pass; `beside`: what is added to dx, 0 if nothing is."""
    sums = workspace(threads * rows.features * one.itemsize)
    _backward(one, rows, (g, x, beside, weight, factors, dx, dweight), sums, threads)


@compiled
def _forward(one: Any, rows: Any, arrays: Any, threads: Any) -> None:
    parallel_for(_forward_part, threads, (one, rows, arrays, threads))


@compiled
def _forward_part(thread: Any, one: Any, rows: Any, arrays: Any, threads: Any) -> None:
    x, other, total, weight, y, factors = arrays
    first, last = part_of(rows.number, thread, threads)
    for row in range(first, last):
        at = row * rows.features * bytes_of(one)
        if other:
            square = _added_square(one, total + at, x + at, other + at, rows.features) / rows.features
        else:
            square = dot(one, x + at, x + at, rows.features) / rows.features
        factor = type(one)(1.0 / math.sqrt(square + rows.eps))
        write(factor, factors + row * bytes_of(one))
        _scale_row(factor, y + at, total + at, weight, rows.features)


@compiled
def _backward(one: Any, rows: Any, arrays: Any, sums: Any, threads: Any) -> None:
    parallel_for(_backward_part, threads, (one, rows, arrays, sums, threads))
    size = bytes_of(one)
    for place in range(rows.features):
        total = one - one
        for thread in range(threads):
            total += read(one, sums + (thread * rows.features + place) * size)
        write(total, arrays[6] + place * size)


@compiled
def _backward_part(thread: Any, one: Any, rows: Any, arrays: Any, sums: Any, threads: Any) -> None:
    g, x, beside, weight, factors, dx, _ = arrays
    size, features = bytes_of(one), rows.features
    own = sums + thread * features * size
    for place in range(features):
        clear(one, own + place * size)
    first, last = part_of(rows.number, thread, threads)
    for row in range(first, last):
        at = row * features * size
        factor = read(one, factors + row * size)
        mean = _weighted_dot(one, g + at, x + at, weight, features) / features
        tilt = type(one)(-mean * factor * factor * factor)
        if beside:
            _gradient_row_beside(factor, tilt, dx + at, g + at, x + at, weight, own, beside + at, features)
        else:
            _gradient_row(factor, tilt, dx + at, g + at, x + at, weight, own, dx, features)


@compiled
def part_of(count: Any, thread: Any, threads: Any) -> Any:
    """First row of a thread, and the one after its last."""
    part = (count + threads - 1) // threads
    return min(thread * part, count), min((thread + 1) * part, count)


AT_ONCE = 4  # vectors of an iteration, each with a sum of its own


Factors = Callable[[Code, Sequence[Value], Value], tuple[Value, Value]]


def _sum_of(terms: int, factors: Factors) -> Any:
    """The instruction that sums products of two factors, made of vectors of `terms` arrays."""

    @instruction
    def summed(typingctx: Any, like: Any, a: Any, b: Any, c: Any, count: Any) -> Any:
        def generate(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> Any:
            code = Code(builder, like)
            pointers = [code.pointer(each) for each in arguments[1 : 1 + terms]]

            def body(vectors: int) -> Any:
                def add(index: Value, sums: Vectors) -> Vectors:
                    new = list(sums[0])
                    for place in range(vectors):
                        at = builder.mul(builder.add(index, I64(place * code.lanes)), I64(code.itemsize))
                        new[place] = code.multiply_add(*factors(code, pointers, at), new[place])
                    return [new]

                return add

            start = [[code.zero] * AT_ONCE]
            index, sums = code.loop(I64(0), arguments[4], AT_ONCE * code.lanes, start, body(AT_ONCE))
            ((first, *others),) = code.loop(index, arguments[4], code.lanes, sums, body(1))[1]
            for other in others:
                first = builder.fadd(first, other)
            return over_lanes(code, first, builder.fadd)

        return like(like, *[types.intp] * 4), generate

    return summed


def _two(code: Code, pointers: Sequence[Value], at: Value) -> tuple[Value, Value]:
    first, second = (code.load(each, at) for each in pointers)
    return first, second


def _three(code: Code, pointers: Sequence[Value], at: Value) -> tuple[Value, Value]:
    first, second, third = (code.load(each, at) for each in pointers)
    return code.builder.fmul(first, second), third


def _total_twice(code: Code, pointers: Sequence[Value], at: Value) -> tuple[Value, Value]:
    """The sum of the last two, which is stored in the first."""
    total, *terms = pointers
    added = code.builder.fadd(*(code.load(each, at) for each in terms))
    code.store(added, total, at)
    return added, added


_dot, _weighted_sum, _square_of_total = _sum_of(2, _two), _sum_of(3, _three), _sum_of(3, _total_twice)


@compiled
def dot(like: Any, a: Any, b: Any, count: Any) -> Any:
    """Sum of the products of two runs of numbers."""
    return _dot(like, a, b, 0, count)


@compiled
def _weighted_dot(like: Any, a: Any, b: Any, c: Any, count: Any) -> Any:
    return _weighted_sum(like, a, b, c, count)


@compiled
def _added_square(like: Any, total: Any, x: Any, other: Any, count: Any) -> Any:
    """total = x + other; the sum of its squares."""
    return _square_of_total(like, total, x, other, count)


@instruction
def _scale_row(typingctx: Any, factor: Any, y: Any, x: Any, weight: Any, count: Any) -> Any:
    """y = factor x weight."""

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> Any:
        code = Code(builder, factor)
        by, (y, x, weight) = code.splat(arguments[0]), (code.pointer(each) for each in arguments[1:4])

        def body(index: Value, sums: Vectors) -> Vectors:
            at = builder.mul(index, I64(code.itemsize))
            code.store(builder.fmul(builder.fmul(code.load(x, at), by), code.load(weight, at)), y, at)
            return sums

        code.loop(I64(0), arguments[4], code.lanes, [], body)
        return context.get_dummy_value()

    return types.void(factor, *[types.intp] * 4), generate


def _gradients(has_beside: bool) -> Any:
    """The instruction for a row: dx = factor g weight + tilt x, with what is beside it; sums += factor g x."""

    @instruction
    def gradients(
        typingctx: Any, factor: Any, tilt: Any, dx: Any, g: Any, x: Any, weight: Any, sums: Any, beside: Any, count: Any
    ) -> Any:
        def generate(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> Any:
            code = Code(builder, factor)
            by, tilt = code.splat(arguments[0]), code.splat(arguments[1])
            dx, g, x, weight, sums, beside = (code.pointer(each) for each in arguments[2:8])

            def body(index: Value, none: Vectors) -> Vectors:
                at = builder.mul(index, I64(code.itemsize))
                scaled, number = builder.fmul(code.load(g, at), by), code.load(x, at)
                tilted = builder.fmul(number, tilt)
                if has_beside:
                    tilted = builder.fadd(tilted, code.load(beside, at))
                code.store(code.multiply_add(scaled, code.load(weight, at), tilted), dx, at)
                code.store(code.multiply_add(scaled, number, code.load(sums, at)), sums, at)
                return none

            code.loop(I64(0), arguments[8], code.lanes, [], body)
            return context.get_dummy_value()

        return types.void(factor, factor, *[types.intp] * 7), generate

    return gradients


_gradient_row, _gradient_row_beside = _gradients(False), _gradients(True)
