"""The ceilings measured before the products of a table of kernels."""

from typing import NamedTuple

from hpcai.kernels import copy, fma_peak, triad
from hpcai.kernels.providers import CUSTOM, VENDOR
from hpcai.kernels.spec import DTYPES

CEILING = "ceiling"  # direction of a ceiling, which is part of no network
FMA_PEAK, TRIAD, COPY = fma_peak.SPEC.name, triad.SPEC.name, copy.SPEC.name
PEAKS = {False: ("fp32", "fp64"), True: tuple(DTYPES)}  # types of the FMA peak on a CPU, on a GPU


class Ceiling(NamedTuple):
    """A ceiling: kernel, type and providers."""

    kernel: str
    dtype: str
    providers: tuple[str, ...]


def ceilings(accelerated: bool) -> list[Ceiling]:
    """In order: FMA peak of each type (no vendor has it), triad, and on a GPU the copy."""
    peaks = [Ceiling(FMA_PEAK, dtype, (CUSTOM,)) for dtype in PEAKS[accelerated]]
    vectors = (TRIAD, COPY) if accelerated else (TRIAD,)
    return peaks + [Ceiling(kernel, "fp64", (CUSTOM, VENDOR)) for kernel in vectors]
