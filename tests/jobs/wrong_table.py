"""The real program whose last rank computes or receives a wrong number: wrong_table.py WHAT [arguments of bench.py]."""

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from planting import RANK, WRONG_RANK, Fault, replaced

from hpcai.comm.buffers import CollectivePatterns
from hpcai.kernels import verify
from hpcai.main import main


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
    """An element of each collective."""

    def make(genuine: Callable[..., int]) -> Any:
        return lambda *arguments, **keywords: genuine(*arguments, **keywords) + (RANK == WRONG_RANK)

    return replaced(CollectivePatterns, "wrong", make)


if __name__ == "__main__":
    {"product": product, "element": element}[sys.argv[1]]().__enter__()
    sys.exit(main(sys.argv[2:]))
