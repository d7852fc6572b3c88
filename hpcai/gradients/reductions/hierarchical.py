"""Hierarchical all-reduce: in the nodes, between the nodes, in the nodes.

Jia et al., Highly scalable deep learning training system with mixed-precision, 2018 (arXiv:1807.11205), section 4.3.
There one rank of a node exchanges all of it; here every rank exchanges its part, so that the node sends no more.
"""

from collections.abc import Callable

from hpcai.gradients.layout import Layout, unequal_nodes
from hpcai.gradients.reductions import REDUCTIONS
from hpcai.gradients.reductions.reduction import Nested


@REDUCTIONS.register("hierarchical")
class Hierarchical(Nested):
    """The ranks of a node share the exchange between nodes; all nodes must have as many ranks of the group."""

    digit = 2
    links = ("node", "between")

    def refusal(self, layout: Callable[[], Layout]) -> str:
        found = layout()
        unequal = unequal_nodes(found.nodes)
        return f"ALLREDUCE hierarchical with DEGREE {found.ranks}: {unequal}; allowed: equally many" if unequal else ""
