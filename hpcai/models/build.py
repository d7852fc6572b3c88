"""The module of any graph."""

from hpcai.models import module
from hpcai.models.detection import detector
from hpcai.models.module import Layers
from hpcai.networks.graph import Graph
from hpcai.networks.regions import KINDS


def detects(graph: Graph) -> bool:
    """Whether a network finds things, rather than telling them apart."""
    return any(isinstance(layer.op, KINDS) for layer in graph.layers)


def build(graph: Graph, seed: int) -> Layers:
    """A Detector, or a Network, as the modules of either say; on the CPU, the same on every rank."""
    return detector.build(graph, seed) if detects(graph) else module.build(graph, seed)
