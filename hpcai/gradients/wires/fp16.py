"""Wire type fp16."""

from hpcai.gradients.sixteen_bits import SixteenBits
from hpcai.gradients.wires import WIRES


@WIRES.register("fp16")
class Fp16(SixteenBits):
    """Eleven bits of a number; above 65504 it becomes infinite, and below 2^-14 it has fewer bits."""

    exact = 2**11
    kind = "float16"
    roundoff = 2.0**-11
    largest = 65520.0
    underflow = 2.0**-25  # half the spacing of the subnormal numbers
