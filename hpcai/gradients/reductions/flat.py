"""Flat all-reduce: one all-reduce of the backend over all ranks of the group."""

from hpcai.formulas.roofline import moved_in_all_reduce
from hpcai.gradients.reductions import REDUCTIONS
from hpcai.gradients.reductions.reduction import Future, Link, Reduction, Vector


@REDUCTIONS.register("flat")
class Flat(Reduction):
    """Uses the backend's all-reduce."""

    digit = 1

    def sum(self, vector: Vector, link: Link) -> Future:
        return link.all_reduce(vector)

    def bytes_sent(self, nbytes: float, ranks: int) -> float:
        return moved_in_all_reduce(nbytes, ranks)
