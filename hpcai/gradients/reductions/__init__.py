"""All-reduce algorithms for gradients: the choices of ALLREDUCE, one module each."""

from hpcai.choices import Choices
from hpcai.gradients.reductions.reduction import Reduction

REDUCTIONS: Choices[Reduction] = Choices(__name__)
