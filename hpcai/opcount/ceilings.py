"""The ceilings that a table of kernels measures before its products, by what it computes on."""

from typing import NamedTuple

from hpcai.kernels import copy, fma_peak, triad
from hpcai.kernels.providers import CUSTOM, VENDOR
from hpcai.kernels.spec import DTYPES

CEILING = "ceiling"  # direction of what is measured, which is part of no network
FMA_PEAK, TRIAD, COPY = fma_peak.SPEC.name, triad.SPEC.name, copy.SPEC.name
PEAKS = {False: ("fp32", "fp64"), True: tuple(DTYPES)}  # types of multiply-adds on a CPU, on a GPU


class Ceiling(NamedTuple):
    """What is measured, in which type, and by whom."""

    kernel: str
    dtype: str
    providers: tuple[str, ...]


def ceilings(accelerated: bool) -> list[Ceiling]:
    """In their order: multiply-adds of each type, which no vendor has, the triad, and on a GPU the copy."""
    peaks = [Ceiling(FMA_PEAK, dtype, (CUSTOM,)) for dtype in PEAKS[accelerated]]
    vectors = (TRIAD, COPY) if accelerated else (TRIAD,)
    return peaks + [Ceiling(kernel, "fp64", (CUSTOM, VENDOR)) for kernel in vectors]
