"""The table of precisions: for each value of PRECISION its types, and what follows from them.

A row is all that a precision is; what needs torch derives its types from their names (hpcai/train/precision.py).
"""

from dataclasses import dataclass

from hpcai.kernels.arithmetic import BF16, BYTES, FP16, FP32, INT8, TF32, Arithmetic


@dataclass(frozen=True)
class Precision:
    """One value of PRECISION.

    `letter` stands in T/V. `bits` are those of the numbers that products are made of. `arithmetic` is that of a layer's
    products, from outside; `product` names their type in tables of kernels. Parameters and momentum are of the type
    `weights`, as torch names it; normalisation always has fp32. `scaled`: the loss is, so that gradients do not vanish.
    `rounding` is the largest share of a tensor's gradient that another order of sums changes.
    """

    name: str
    letter: str
    bits: int
    arithmetic: Arithmetic
    product: str
    rounding: float
    weights: str = "float32"
    scaled: bool = False

    @property
    def pure(self) -> bool:
        """Whether parameters and activations have the type of the products (batch norm excepted)."""
        return self.weights != FP32.stored

    @property
    def quantised(self) -> bool:
        """Whether forward products multiply bytes, with exact sums, from and to fp32."""
        return self.arithmetic is INT8

    @property
    def rounded(self) -> bool:
        """Whether results of products are stored in fewer bits than they are accumulated in."""
        return self.arithmetic.roundoff > 0.0

    @property
    def activation_bytes(self) -> int:
        """Bytes of an element of an activation."""
        return BYTES[self.arithmetic.stored]

    @property
    def weight_bytes(self) -> int:
        """Bytes of a parameter, and of its gradient and momentum."""
        return BYTES[self.weights]


# `rounding`: where sums run in another order, a ReLU here and there decides the other way. With other kernels in every
# layer this changed up to 0.02 of a tensor's gradient in fp32 and 0.2 in bf16, compiled 0.04 and 0.3; with the same
# ones nothing.
_ROWS = (
    Precision("fp32", "S", 32, FP32, "fp32", 1 / 16),
    Precision("tf32", "T", 19, TF32, "tf32", 1 / 8),
    Precision("fp16", "H", 16, FP16, "fp16", 1 / 8, scaled=True),
    Precision("bf16", "B", 16, BF16, "bf16", 1 / 4),
    Precision("pure16", "P", 16, BF16, "bf16", 1 / 4, weights="bfloat16"),
    Precision("halffp16", "F", 16, FP16, "fp16", 1 / 8, weights="float16", scaled=True),
    Precision("int8", "I", 8, INT8, "int8", 1 / 4),
)
PRECISIONS = {row.name: row for row in _ROWS}
# Types of products in all directions of a layer.
OF_LAYERS = tuple(row.name for row in _ROWS if row.name == row.product and not row.quantised)
