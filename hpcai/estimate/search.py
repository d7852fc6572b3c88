"""Memory of building child networks in a search, concurrently with the training of a trial."""

from math import prod

from hpcai.estimate.residuals import FP64_BYTES
from hpcai.networks.graph import Graph

IMAGES = 32  # training images whose feature maps initialise an inserted block
COPIES = 6  # copies of all weights in float64: the parent's, the child's, read, written and passed on
MAPS = 3  # feature maps alive at once in a layer-by-layer forward pass


def child_building_bytes(graph: Graph) -> int:
    """Bytes of building a network of that size from its parent's weights, in the building thread."""
    largest = max(prod(shape) for shape in graph.shapes.values())
    return FP64_BYTES * (COPIES * sum(graph.parameters.values()) + MAPS * IMAGES * largest)
