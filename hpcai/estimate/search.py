"""What a search needs beside the training of its trials: the next network is made while one trains."""

from math import prod

from hpcai.estimate.residuals import FP64_BYTES
from hpcai.networks.graph import Graph

IMAGES = 32  # of the training set, whose maps tell what a block that is inserted begins with
COPIES = 6  # of all weights in float64: the parent's, the child's, what is read, written and handed over
MAPS = 3  # that are there at once when images go through a network layer by layer


def raising_bytes(graph: Graph) -> int:
    """Bytes of making a network of that size from its parent's weights, in the thread that does it."""
    largest = max(prod(shape) for shape in graph.shapes.values())
    return FP64_BYTES * (COPIES * sum(graph.parameters.values()) + MAPS * IMAGES * largest)
