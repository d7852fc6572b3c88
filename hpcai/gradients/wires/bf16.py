"""Wire type bf16."""

from hpcai.gradients.sixteen_bits import SixteenBits
from hpcai.gradients.wires import WIRES


@WIRES.register("bf16")
class Bf16(SixteenBits):
    """Eight bits of a number, in the range of fp32."""

    exact = 2**8
    kind = "bfloat16"
    roundoff = 2.0**-8
