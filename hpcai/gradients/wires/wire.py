"""Interface of a wire type."""

from abc import ABC, abstractmethod
from typing import ClassVar

from hpcai.gradients.reductions.reduction import Future, Link, Reduction, Vector


class Wire(ABC):
    """Wire type: converts gradients of any type for sending. One object for each training."""

    nbytes: ClassVar[int]  # bytes of a gradient element on the wire; a digit of T/V
    exact: ClassVar[int]  # all integers up to this one are exact in the type

    @abstractmethod
    def encoded(self, gradients: Vector) -> Vector:
        """The gradients in the wire type; the same memory if they have it already."""

    def reduce(self, gradients: Vector, link: Link, reduction: Reduction, divisor: int) -> Future:
        """Start to replace gradients by their sum over the ranks / `divisor`; the future's value is the gradients.

        They are divided before they are summed: so no sum overflows that the average would not.
        """
        sent = self.encoded(gradients)
        sent.div_(divisor)
        return reduction.sum(sent, link).then(lambda done: _decoded(gradients, done.value()[0]))

    def buffer_bytes(self, elements: int) -> int:
        """Bytes of additional memory for sending `elements` gradients."""
        return 0


def _decoded(gradients: Vector, received: Vector) -> Vector:
    return received if received.dtype == gradients.dtype else gradients.copy_(received)
