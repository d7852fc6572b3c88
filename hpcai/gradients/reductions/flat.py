"""Flat all-reduce: one exchange over all ranks of the group."""

from collections.abc import Mapping

from hpcai.formulas.roofline import moved_in_all_reduce
from hpcai.gradients.layout import LinkName
from hpcai.gradients.reductions import REDUCTIONS
from hpcai.gradients.reductions.reduction import Exchange, Links, Reduction, Vector


@REDUCTIONS.register("flat")
class Flat(Reduction):
    """In fp32 it is the all-reduce of the backend."""

    digit = 1
    links = ("group",)

    def sum(self, vector: Vector, links: Links, exchange: Exchange) -> None:
        exchange(vector, links["group"], 0)

    def bytes_sent(self, elements: float, sizes: Mapping[LinkName, int], element: int) -> dict[LinkName, float]:
        return {"group": moved_in_all_reduce(element * elements, sizes["group"])}
