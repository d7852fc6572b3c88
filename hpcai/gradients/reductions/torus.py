"""Torus all-reduce: along the rows, the columns and the rows of a grid of all ranks.

Mikami et al., Massively distributed SGD, 2018 (arXiv:1811.05233), section 3.2.
"""

from hpcai.gradients.reductions import REDUCTIONS
from hpcai.gradients.reductions.reduction import Nested


@REDUCTIONS.register("torus")
class Torus(Nested):
    """R x C ranks, row by row: the most nearly square factors, whatever the nodes are; 1 x Q if Q is a prime."""

    digit = 3
    links = ("row", "column")
