"""Algorithms that sum gradients over the ranks of a group: the choices of ALLREDUCE, one module each."""

from hpcai.choices import Choices
from hpcai.gradients.reductions.reduction import Reduction

REDUCTIONS: Choices[Reduction] = Choices(__name__)
