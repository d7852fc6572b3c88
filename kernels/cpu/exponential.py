"""2^x on vectors of fp32, without a library: a power of two times a polynomial.

x = n + f with n the nearest integer. 2^f by a polynomial of degree 6 with the least largest relative error on
[-1/2, 1/2], 1.9e-9 (0.03 u), found by weighted least squares on 4000 Chebyshev nodes (Lawson's iteration); its
evaluation in fp32 rounds by 1.4 u at most. 2^n is made of its bits, and multiplies without an error.
"""

from functools import reduce

from llvmlite import ir
from numba import types

from .simd import I32, Code, Value

EXPONENTIAL_ERROR = 1.5  # largest relative error, in u = 2^-24, for LEAST <= x < 127
LEAST = -126.0  # smaller x count as this one: 2^LEAST is the smallest normal number
SIGNIFICAND = 23  # bits after the point
# Adding it rounds to an integer, in whose low bits the biased exponent stands.
WHOLE = 1.5 * 2.0**SIGNIFICAND + 127
COEFFICIENTS = (
    *(0.00015345811586096186, 0.0013399931215823183, 0.009618488958662116, 0.055503287769755556),
    *(0.24022646890619775, 0.6931472057372599, 1.0000000005541672),
)


def number(value: float) -> Value:
    """A constant of fp32."""
    return ir.Constant(ir.FloatType(), value)


def power_of_two(code: Code, x: Value) -> Value:
    """2^x of each lane; NaN stays NaN."""
    builder, least, whole = code.builder, code.splat(number(LEAST)), code.splat(number(WHOLE))
    x = builder.select(builder.fcmp_ordered("<", x, least), least, x)
    moved = builder.fadd(x, whole)
    rest = builder.fsub(x, builder.fsub(moved, whole))
    first, *others = (code.splat(number(each)) for each in COEFFICIENTS)
    polynomial = reduce(lambda sum_, each: code.multiply_add(sum_, rest, each), others, first)
    bits = Code(builder, types.int32)
    exponent = builder.shl(builder.bitcast(moved, bits.vector), bits.splat(I32(SIGNIFICAND)))
    return builder.fmul(polynomial, builder.bitcast(exponent, code.vector))
