"""Gradients in fp32."""

from hpcai.gradients.reductions.reduction import Vector
from hpcai.gradients.wires import WIRES
from hpcai.gradients.wires.wire import Wire


@WIRES.register("fp32")
class Fp32(Wire):
    """Loses nothing of fp32 gradients; 16-bit ones are summed more exactly than in their own type."""

    nbytes = 4
    exact = 2**24

    def encoded(self, gradients: Vector) -> Vector:
        return gradients.float()
