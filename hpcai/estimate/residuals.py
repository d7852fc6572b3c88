"""Memory of the checks that hold the provider's products against float64 (kernels/check.py), by the layers' shapes."""

from functools import lru_cache
from math import prod

from hpcai.networks.graph import Graph
from hpcai.networks.layers import Conv, Dense

# As kernels/check.py has them: a batch is halved until a check is no larger.
LARGEST_OPERATIONS = 2**30
LARGEST_MEMORY = 2**28 // 6
BLOCK_ELEMENTS = 2**17
FP32_BYTES, FP64_BYTES = 4, 8
BLOCKS = 8  # float64 arrays of a block at once: factors, squares, products, errors


@lru_cache
def residual_bytes(graph: Graph, batch: int) -> int:
    """Most bytes that the checks of one layer hold at once."""
    return max(
        _layer(layer.op, graph.shapes[layer.inputs[0]], graph.shapes[layer.name], batch)
        for layer in graph.layers
        if isinstance(layer.op, Conv | Dense)
    )


def _layer(op: Conv | Dense, x: tuple[int, ...], y: tuple[int, ...], batch: int) -> int:
    if isinstance(op, Dense):  # the rows of a table are as many vectors
        batch, x, y = batch * prod(x[:-1]), x[-1:], y[-1:]
    taps = prod(op.kernel) if isinstance(op, Conv) else 1
    groups = op.groups if isinstance(op, Conv) else 1
    weights = y[0] * x[0] // groups * taps
    images = checked_images(prod(x), prod(y), weights, 2 * weights * prod(y[1:]), batch)
    tensors = FP32_BYTES * (images * (prod(x) + prod(y)) + weights)
    right = images * prod(y)  # of the weights' gradient: all of the output's, and its squares
    left = max(BLOCK_ELEMENTS, taps * images * prod(y[1:]))
    # The data, their copies in the provider's layout, and its results; then what is compared.
    return 3 * tensors + FP64_BYTES * (5 * right // 2 + 3 * left) + FP64_BYTES * BLOCKS * BLOCK_ELEMENTS


def checked_images(x: int, y: int, weights: int, operations: int, batch: int) -> int:
    """Images of a batch that are checked, from a layer's elements and operations for one image."""
    while batch > 1 and (
        batch * operations > LARGEST_OPERATIONS or FP32_BYTES * (batch * (x + y) + weights) > LARGEST_MEMORY
    ):
        batch //= 2
    return batch
