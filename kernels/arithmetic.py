"""Table of the types of products: fp64, fp32, tf32, fp16, bf16 and int8; needs no library."""

from dataclasses import dataclass

# Largest relative error of one rounding to nearest in fp32; what dlamch('E'), HPL's eps, is for fp64 (2^-53).
UNIT_ROUNDOFF_FP32 = 2.0**-24


@dataclass(frozen=True)
class Arithmetic:
    """The types a product is made of: what its inputs are rounded to, what it is summed and its result is stored in.

    `unit` is the unit roundoff of the sums. `significand` are the bits of an input, the leading one included;
    `roundoff` is the largest relative error of storing a sum, 0 where it is stored as it was summed; `normal` the
    smallest number that keeps that precision. `stored` names the type of input and result, in torch and in NumPy where
    that has it.
    """

    name: str
    stored: str
    significand: int
    roundoff: float
    normal: float
    unit: float = UNIT_ROUNDOFF_FP32

    @property
    def eps(self) -> float:
        """Unit roundoff of the result: the accumulator's, or the stored type's if coarser."""
        return max(self.roundoff, self.unit)


FP64 = Arithmetic("fp64", "float64", 53, 0.0, 2.0**-1022, 2.0**-53)
FP32 = Arithmetic("fp32", "float32", 24, 0.0, 2.0**-126)
TF32 = Arithmetic("tf32", "float32", 11, 0.0, 2.0**-126)
FP16 = Arithmetic("fp16", "float16", 11, 2.0**-11, 2.0**-14)
BF16 = Arithmetic("bf16", "bfloat16", 8, 2.0**-8, 2.0**-126)
# forward only; from and to fp32, in which gradients are computed
INT8 = Arithmetic("int8", "float32", 8, 0.0, 2.0**-126)

# Bytes of a stored element.
BYTES = {"int8": 1, "float16": 2, "bfloat16": 2, "float32": 4, "int32": 4, "float64": 8}
