"""Wire type fp32."""

from hpcai.gradients.reductions.reduction import Link, Vector
from hpcai.gradients.wires import WIRES
from hpcai.gradients.wires.wire import Wire


@WIRES.register("fp32")
class Fp32(Wire):
    """Sends gradients in fp32: exact for fp32 gradients, and more exact than their own type for 16-bit ones."""

    nbytes = 4
    exact = 2**24
    plain = True

    def sum(self, vector: Vector, link: Link, carried: Vector) -> None:
        link.all_reduce(vector)
