"""Seconds of an all-reduce by the latency-bandwidth model (Hockney 1994; Thakur et al., Optimization of collective
communication operations in MPICH, 2005): alpha of each message on the longest path, beta of each byte on the busiest
link. Ranks are placed node by node; the ranks of a node share its link to other nodes.
"""

from dataclasses import dataclass
from math import ceil, log2

from hpcai.errors import InputError
from hpcai.formulas.roofline import moved_in_all_reduce
from hpcai.gradients.layout import torus_size

FP32 = 4  # bytes of an element on inner links


@dataclass(frozen=True)
class Link:
    """latency: of a message, in s. per_byte: s/B in one direction, within a node of a rank, between nodes of a node."""

    latency: float
    per_byte: float


@dataclass(frozen=True)
class Links:
    """Links of a machine with so many ranks a node; None where nothing is known."""

    ranks_per_node: int
    within: Link | None
    between: Link | None

    def nodes(self, ranks: int) -> int:
        """Nodes of so many ranks."""
        return ceil(ranks / self.ranks_per_node)

    def known(self, crossing: bool) -> Link:
        """The link between nodes or within them; InputError if it is not known."""
        link = self.between if crossing else self.within
        if link is None:
            where = "between nodes" if crossing else "within a node"
            raise InputError(
                f"latency and bandwidth {where} are not known; allowed: results with a table of [comm] of them, with "
                "the backend that trained, or --machine"
            )
        return link


def ring(nbytes: float, ranks: int, nodes: int, links: Links, flows: int = 1) -> float:
    """A ring over `ranks` ranks on `nodes` nodes, of which `flows` rings share the link of each node.

    2 (ranks - 1) messages in sequence, 2 (nodes - 1) of them between nodes; each rank sends 2 (ranks - 1) / ranks of
    the bytes (Patarasu and Yuan, Bandwidth optimal all-reduce algorithms, 2009). With one rank nothing is sent.
    """
    if ranks == 1:
        return 0.0
    inside, outside = 2 * (ranks - nodes), 2 * (nodes - 1)
    latency = per_byte = 0.0
    if inside:
        link = links.known(crossing=False)
        latency, per_byte = inside * link.latency, link.per_byte
    if outside:
        link = links.known(crossing=True)
        latency, per_byte = latency + outside * link.latency, max(per_byte, flows * link.per_byte)
    return latency + moved_in_all_reduce(nbytes, ranks) * per_byte


def flat(elements: float, element: int, ranks: int, links: Links) -> float:
    """One ring over all ranks."""
    return ring(elements * element, ranks, links.nodes(ranks), links)


def tree(elements: float, element: int, ranks: int, links: Links) -> float:
    """Two binary trees over the nodes, chains in them; each byte is sent twice over each link.

    Sanders et al., Two-tree algorithms for full bandwidth broadcast, reduction and scan, 2009; latencies as NCCL
    counts them: 2 (ranks of a node - 1) within and 2 log2(nodes) between nodes.
    """
    nodes = links.nodes(ranks)
    chain, levels = 2 * (ceil(ranks / nodes) - 1), 2 * ceil(log2(nodes))
    used = [(count, links.known(crossing)) for count, crossing in ((chain, False), (levels, True)) if count]
    latency = sum(count * link.latency for count, link in used)
    return latency + 2 * elements * element * max((link.per_byte for _, link in used), default=0.0)


def hierarchical(elements: float, element: int, ranks: int, links: Links) -> float:
    """In the nodes in fp32, between the nodes each rank its part, in the nodes (hpcai/gradients/reductions)."""
    nodes = links.nodes(ranks)
    inner = ceil(ranks / nodes)
    outer = ring(elements / inner * element, nodes, nodes, links, flows=inner)
    return ring(elements * FP32, inner, 1, links) + outer


def torus(elements: float, element: int, ranks: int, links: Links) -> float:
    """Along the rows in fp32, the columns, the rows of the most nearly square grid (hpcai/gradients/reductions)."""
    rows, columns = torus_size(ranks)
    per_node = min(ranks, links.ranks_per_node)
    in_node = max(1, per_node // columns)  # ranks of a column on a node
    inner = ring(elements * FP32, columns, ceil(columns / per_node), links)
    outer = ring(elements / columns * element, rows, ceil(rows / in_node), links, flows=min(columns, per_node))
    return inner + outer


COSTS = {"flat": flat, "tree": tree, "hierarchical": hierarchical, "torus": torus}
