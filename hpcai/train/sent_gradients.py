"""What sending changes in a step's mean gradient, derived for the comparison of a replayed step with its formula."""

from dataclasses import dataclass

import numpy as np
import torch
from mpi4py import MPI

from hpcai.gradients.wires.wire import Wire
from hpcai.train.error_feedback import AFTER, BEFORE, ErrorFeedback
from hpcai.update_rules.rule import Vector

HIGHEST = 127  # largest number of the wire types that carry errors


@dataclass(frozen=True)
class Carried:
    """Rounding errors of one tensor's mean gradient: flat, float64, summed over the ranks, without the loss scale.

    added: those of the step before, which this step's mean contains; left: those of this step, which it lacks.
    excess: largest error left on any rank / the most that rounding leaves.
    """

    added: Vector
    left: Vector
    excess: float


class CarriedErrors:
    """The carried errors of a step's tensors. Collective over the group, as is `of`.

    Rounding to 127 steps of a power of two leaves at most 1/127 of the largest magnitude: once of a rank's vector, and
    once of a part of the sum. No such magnitude exceeds the sum over the ranks of their largest ones, of which twice is
    allowed, since a repetition by other kernels may find smaller ones.
    """

    def __init__(
        self, feedback: ErrorFeedback | None, comm: MPI.Comm, scale: float, gradients: list[torch.Tensor]
    ) -> None:
        """`gradients`: of this rank, times the loss scale."""
        self._feedback, self._comm, self._scale = feedback, comm, scale
        if feedback is not None:
            own = max(float(gradient.detach().abs().max()) for gradient in gradients) / comm.size
            kept = max((float(value.abs().max()) for value in feedback.copies(BEFORE)), default=0.0)
            self._most = 4 * float(comm.allreduce(own + kept)) / HIGHEST

    def of(self, name: str) -> Carried | None:
        """Those of a parameter; None where nothing is carried."""
        if self._feedback is None:
            return None
        before, after = (self._feedback.kept(name, copy) for copy in (BEFORE, AFTER))
        if before is None or after is None:
            return None
        largest = self._comm.allreduce(float(after.abs().max()), MPI.MAX)
        return Carried(self._sum(before), self._sum(after), largest / self._most if self._most > 0 else 0.0)

    def _sum(self, errors: torch.Tensor) -> Vector:
        own = errors.double().flatten().cpu().numpy()
        total = np.empty_like(own)
        self._comm.Allreduce(own, total)
        return total / self._scale


def sent_error(wire: Wire, size: float, count: int, scale: float, ranks: int) -> float:
    """Largest norm of the error of a mean gradient of `count` elements by a wire that keeps no errors.

    size: the sum of the norms of the ranks' gradients / their number. Each rank's gradient is rounded once, and each
    sum of some of them, of which a backend may form as many as there are ranks: (Q + 1) u size. Of numbers too small
    for the type the error is absolute, and the larger as the loss scale is smaller.
    """
    if ranks == 1:
        return 0.0
    return (ranks + 1) * (wire.roundoff * size + wire.underflow * float(np.sqrt(count)) / scale)


def overflows(wire: Wire, scaled: Vector, mean: Vector, comm: MPI.Comm) -> bool:
    """Whether a number of a gradient is not finite on the wire: of a rank, or of the mean; both times the loss scale.

    Numbers are divided by the ranks before they are sent. The same on every rank; collective over the group.
    """
    own = np.abs(scaled).max(initial=0.0) / comm.size
    most = comm.allreduce(float(own) if np.isfinite(own) else np.inf, MPI.MAX)
    sent = max(most, float(np.abs(mean).max(initial=0.0)))
    return not (sent < wire.largest if comm.size > 1 else np.isfinite(sent))
