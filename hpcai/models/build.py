"""Builds the torch module of a graph."""

from hpcai.models import module
from hpcai.models.detection import detector
from hpcai.models.module import Layers
from hpcai.networks.graph import Graph
from hpcai.networks.regions import KINDS
from hpcai.networks.sequences import Embedding


def detects(graph: Graph) -> bool:
    """Whether a network is a detector and not a classifier."""
    return any(isinstance(layer.op, KINDS) for layer in graph.layers)


def looks_up(graph: Graph) -> bool:
    """Whether a network reads symbols and not images."""
    return any(isinstance(layer.op, Embedding) for layer in graph.layers)


def build(graph: Graph, seed: int) -> Layers:
    """A Detector or a Network with parameters drawn from the seed; on the CPU, the same on every rank."""
    return detector.build(graph, seed) if detects(graph) else module.build(graph, seed)
