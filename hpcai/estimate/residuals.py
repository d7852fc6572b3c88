"""Memory of the residual checks against float64 (kernels/check.py), by the layers' shapes."""

from functools import lru_cache
from math import prod

from hpcai.kernels import conv2d
from hpcai.kernels.conv2d.reference import BLOCK_ELEMENTS
from hpcai.kernels.layers import LayerShape, affordable
from hpcai.networks.graph import Graph
from hpcai.opcount.products import shapes_of

FP32_BYTES, FP64_BYTES = 4, 8
BLOCKS = 8  # float64 arrays of a block at once: factors, squares, products, errors


@lru_cache
def residual_bytes(graph: Graph, batch: int) -> int:
    """Peak bytes of the checks of one layer."""
    return max(_layer(shape) for shape, _ in shapes_of(graph, batch))


def _layer(shape: LayerShape) -> int:
    x, w, y = affordable(shape).elements
    outputs = y // (shape.filters if isinstance(shape, conv2d.Shape) else shape.outputs)  # of one filter
    taps = prod(shape.kernel) if isinstance(shape, conv2d.Shape) else 1
    left = max(BLOCK_ELEMENTS, taps * outputs)
    # The operands, their copies in the provider's layout, and the results; then the reference: of the weights' gradient
    # all of the output's, and its squares.
    return 3 * FP32_BYTES * (x + y + w) + FP64_BYTES * (5 * y // 2 + 3 * left + BLOCKS * BLOCK_ELEMENTS)
