"""FMA peak: multiply-adds on sums that stay in registers, the upper bound of every product.

Each sum starts at 0; a step multiplies it by FACTOR and adds TERM or -TERM. With these values a sum counts the steps,
exactly up to 2^24.
"""

from dataclasses import dataclass
from typing import NamedTuple, Protocol, cast

from ..providers import CUSTOM, Provider, backend
from ..spec import Spec, fp32_tolerance

FACTOR = TERM = 1.0


@dataclass(frozen=True)
class Shape:
    """`sums` numbers, `steps` multiply-adds each."""

    sums: int
    steps: int


class Numbers(NamedTuple):
    """The type of the sums, and what a step adds: TERM or -TERM."""

    dtype: str
    term: float = TERM


def operations(shape: Shape) -> int:
    """FLOP; 1 multiply-add = 2."""
    return 2 * shape.sums * shape.steps


def nbytes(shape: Shape, direction: str = "", dtype: str = "fp32") -> int:
    """Bytes moved: negligible, 0."""
    return 0


SPEC = Spec[Shape](name="fma_peak", operations=operations, nbytes=nbytes, tolerance=fp32_tolerance)


class PeakProvider(Provider[Shape], Protocol):
    """Provider of the FMA peak, which also chooses the number of sums that keeps the device busy."""

    def shape(self, dtype: str, steps: int, device: str, threads: int) -> Shape:
        """The shape to measure in that type on that many threads, with about `steps` steps."""


def peak_provider(device: str) -> PeakProvider:
    """The custom provider of the FMA peak; there is no vendor's. Unavailable if it cannot be imported."""
    return cast(PeakProvider, backend(SPEC, CUSTOM, device))
