"""All-reduce algorithms for gradients: the choices of ALLREDUCE, one module each; `auto` takes the fastest."""

from hpcai.choices import Choices
from hpcai.gradients.reductions.reduction import Reduction
from hpcai.inputfile.keys import keys_by_name

REDUCTIONS: Choices[Reduction] = Choices(__name__)
AUTO = "auto"


def algorithms(allreduce: str) -> tuple[str, ...]:
    """The algorithms that a value of ALLREDUCE allows."""
    every = keys_by_name()["ALLREDUCE"].choices
    return tuple(name for name in every if name != AUTO) if allreduce == AUTO else (allreduce,)
