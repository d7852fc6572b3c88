"""What the values of PRECISION mean for a result: letter of T/V, bits, and how far rounding may change a gradient."""

LETTERS = {"fp32": "S", "tf32": "T", "fp16": "H", "bf16": "B", "pure16": "P", "int8": "I"}
BITS = {"fp32": 32, "tf32": 19, "fp16": 16, "bf16": 16, "pure16": 16, "int8": 8}  # of the operands of a product
ROUNDED = ("fp16", "bf16", "pure16")  # results of products are stored in 16 bits
PRODUCT_TYPES = {"pure16": "bf16"}  # values of PRECISION that are not the type of the products
# Where sums run in another order, a ReLU here and there decides the other way. With other kernels in every layer this
# changed up to 0.02 of a tensor's gradient in fp32 and 0.2 in bf16, compiled 0.04 and 0.3; with the same ones nothing.
NOISE = {"fp32": 1 / 16, "tf32": 1 / 8, "fp16": 1 / 8, "bf16": 1 / 4, "pure16": 1 / 4, "int8": 1 / 4}
