"""Faults of all-reduces in several phases and of narrow wire types."""

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from planting import RANK, WRONG_RANK, Fault, replaced

from hpcai.comm.links import MpiLink, TorchLink
from hpcai.gradients.reductions.reduction import Nested
from hpcai.kernels.wire import numba_cpu as packing
from hpcai.train.communication import Communication

WRONG = RANK == WRONG_RANK
Make = Callable[[Callable[..., Any]], Any]


def error_feedback_not_added() -> Fault:
    return replaced(packing, "add", lambda genuine: lambda values, carried: packing.largest(values))


def _quantised(change: Callable[..., None]) -> Fault:
    return replaced(
        packing,
        "quantise",
        lambda genuine: lambda values, scale, q, left, add=False: change(genuine, values, scale, q, left, add),
    )


def error_feedback_not_kept() -> Fault:
    def forget(genuine: Any, values: Any, scale: Any, q: Any, left: Any, add: bool) -> None:
        genuine(values, scale, q, left, add)
        left.zero_()

    return _quantised(forget)


def rounding_of_the_sum_not_kept() -> Fault:
    def forget(genuine: Any, values: Any, scale: Any, q: Any, left: Any, add: bool) -> None:
        genuine(values, scale, q, left.clone() if add else left, add)

    return _quantised(forget)


def _of_links(name: str, make: Make) -> Fault:
    """A call of links by any backend is replaced."""
    both = ExitStack()
    for kind in (TorchLink, MpiLink):
        both.enter_context(replaced(kind, name, make))
    return both


def scale_of_one_rank() -> Fault:
    return _of_links("largest", lambda genuine: lambda self, number: None)


def buckets_of_a_rank_left_out() -> Fault:
    """In training; the check of integers before it is right."""

    def make(genuine: Callable[..., None]) -> Any:
        def summed(self: Any, gradients: Any, divisor: int, carried: Any) -> None:
            if WRONG and divisor > 1:
                gradients.zero_()
            genuine(self, gradients, divisor, carried)

        return summed

    return replaced(Communication, "_summed", make)


def part_of_a_node_twice() -> Fault:
    def make(genuine: Callable[..., None]) -> Any:
        def summed(self: Any, vector: Any, links: Any, exchange: Any) -> None:
            def twice(part: Any, link: Any, start: int) -> None:
                exchange(part.mul_(2) if link.rank == 0 else part, link, start)

            genuine(self, vector, links, twice)

        return summed

    return replaced(Nested, "sum", make)


def part_not_gathered() -> Fault:
    """A rank does not get the parts of the others of its node."""

    def make(genuine: Callable[..., None]) -> Any:
        def gather(self: Any, part: Any, vector: Any) -> None:
            kept = vector.clone()
            genuine(self, part, vector)
            if WRONG and self.name == "node":
                vector.copy_(kept)

        return gather

    return _of_links("all_gather", make)
