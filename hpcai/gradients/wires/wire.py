"""Interface of a wire type."""

from abc import ABC, abstractmethod
from math import inf
from typing import ClassVar

from hpcai.gradients.reductions.reduction import Link, Vector


class Wire(ABC):
    """Wire type: sums fp32 vectors over a link with numbers of a type. One object for each training."""

    nbytes: ClassVar[int]  # bytes of a gradient element on the wire; a digit of T/V
    exact: ClassVar[int]  # all integers up to this one are exact in the type, also as sums of others
    plain: ClassVar[bool] = False  # whether an all-reduce of fp32 is all it does
    carries: ClassVar[bool] = False  # whether rounding errors are kept for the next step (error feedback)
    # Of numbers that are rounded and not kept: unit roundoff, and largest error of those too small for the type.
    roundoff: ClassVar[float] = 0.0
    underflow: ClassVar[float] = 0.0
    largest: ClassVar[float] = inf  # from this magnitude on a number becomes infinite

    @abstractmethod
    def sum(self, vector: Vector, link: Link, carried: Vector) -> None:
        """Sum an fp32 vector over the link's ranks in place, every rank with the same bits.

        carried: rounding errors of the step before, of the vector's size, which are replaced by those of this one;
        empty for a wire that does not carry.
        """

    def buffer_bytes(self, elements: int) -> int:
        """Bytes of additional memory for sending `elements` gradients at a time."""
        return 0

    def carried_bytes(self, elements: int) -> int:
        """Bytes of the rounding errors of all gradients, and of their copies around a replayed step."""
        return 3 * 4 * elements * self.carries
