"""Estimate of the time in which a training waits for the sums of its gradients."""

from collections.abc import Mapping
from typing import Any

from hpcai.formulas.roofline import moved_in_all_reduce
from hpcai.gradients.wires import WIRES
from hpcai.inputfile.split import cut_of, split_of
from hpcai.networks.graph import Graph
from hpcai.opcount.stages import parameters_of_a_rank

LINK = 1.25e9  # bytes/s each way between nodes, where nothing is given: 10 Gb/s
# Bytes/s of a rank within a node: gloo over the loopback measured 0.7 GB/s with two ranks (inputs/nodes.dat); of GPUs a
# part of NVLink's rate.
WITHIN = {False: 0.7e9, True: 100e9}
BACKWARD = 2 / 3  # share of a step in which gradients can be summed: the backward pass has twice the forward's products


def exposed(
    graph: Graph, settings: Mapping[str, Any], step: float, node_ranks: int, link: float, accelerated: bool
) -> float:
    """Seconds of a step, which computes for `step` seconds, in which a rank waits for the sums of gradients.

    Flat all-reduce; what the backward pass does not hide. Latency, and other groups on the same link, are left out.
    """
    replicas = split_of(settings).replicas
    if replicas == 1:
        return 0.0
    nbytes = WIRES[settings["WIRE"]].nbytes * parameters_of_a_rank(graph, cut_of(settings))
    rate = link if spans_nodes(settings, node_ranks) else WITHIN[accelerated]
    return max(0.0, moved_in_all_reduce(nbytes, replicas) / rate - BACKWARD * step)


def spans_nodes(settings: Mapping[str, Any], node_ranks: int) -> bool:
    """Whether a group has ranks of several nodes of `node_ranks` ranks; consecutive ranks share a node."""
    groups, degree = settings["GROUPS"], settings["DEGREE"]
    if groups * degree <= node_ranks:
        return False
    return degree > 1 and (settings["MAPPING"] == "column" or node_ranks % degree > 0)
