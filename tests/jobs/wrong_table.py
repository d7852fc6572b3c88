"""The real program whose last rank computes or receives a wrong number: wrong_table.py WHAT [arguments of bench.py]."""

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from planting import RANK, WRONG_RANK, Fault, replaced

from hpcai.comm.buffers import CollectivePatterns
from hpcai.comm.collective_timing import CollectiveTimer
from hpcai.kernels import verify
from hpcai.main import main
from hpcai.preflight import block_timing


def product() -> Fault:
    """The first element of each result of the custom kernels."""

    def make(genuine: Callable[..., float]) -> Any:
        def residual(*arguments: Any) -> float:
            *before, way, seed = arguments
            return genuine(*before, way._replace(result=lambda: spoiled(way.result())), seed)

        return residual if RANK == WRONG_RANK else genuine

    return replaced(verify, "residual", make)


def spoiled(result: Any) -> Any:
    other = np.array(result)
    other.flat[0] += 1
    return other


def element() -> Fault:
    """The first element that a rank receives in each collective."""

    def make(genuine: Callable[..., int]) -> Any:
        def wrong(self: Any, buffers: Any, *others: Any, **keywords: Any) -> int:
            buffers.receive[0, 0] += 1
            return genuine(self, buffers, *others, **keywords)

        return wrong if RANK == WRONG_RANK else genuine

    return replaced(CollectivePatterns, "wrong", make)


def products_in_half_the_time() -> Fault:
    """Each block of calls takes half of its time."""
    return replaced(block_timing, "block", lambda genuine: lambda *arguments: genuine(*arguments) / 2)


def half_of_the_calls() -> Fault:
    """Half of the calls of a stretch are made, all are counted."""

    def make(genuine: Callable[..., float]) -> Any:
        return lambda rotation, times, device: genuine(rotation, (times + 1) // 2, device)

    return replaced(block_timing, "stretch", make)


def collectives_in_half_the_time() -> Fault:
    """The timed calls of a collective take half of their time."""
    return replaced(CollectiveTimer, "_timed", lambda genuine: lambda *arguments: genuine(*arguments) / 2)


FAULTS = {each.__name__: each for each in (
    product, products_in_half_the_time, half_of_the_calls, element, collectives_in_half_the_time,
)}  # fmt: skip

if __name__ == "__main__":
    FAULTS[sys.argv[1]]().__enter__()
    sys.exit(main(sys.argv[2:]))
