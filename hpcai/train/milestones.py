"""When the epochs and validations of a training began and ended, by this rank's clock."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from hpcai.clock import now
from hpcai.train.state import CurvePoint

EPOCH, VALIDATION = "epoch", "validation"


class Interval(NamedTuple):
    """An epoch or a validation; `epoch` counts from 1, `begun` and `ended` are readings of this rank's clock."""

    what: str
    epoch: int
    begun: float
    ended: float


class Milestones:
    """The intervals of one training in the order in which they ended, one or two for each epoch; and its curve."""

    def __init__(self) -> None:
        self.intervals: list[Interval] = []
        self.curve: list[CurvePoint] = []

    def restore(self, intervals: Sequence[Interval], curve: Sequence[CurvePoint], shift: float) -> None:
        """Go on from a checkpoint; `shift`: this rank's clock less that of the checkpoint's process."""
        self.intervals = [one._replace(begun=one.begun + shift, ended=one.ended + shift) for one in intervals]
        self.curve = list(curve)

    @contextmanager
    def interval(self, what: str, epoch: int) -> Iterator[None]:
        """Context manager: the block is an interval."""
        begun = now()
        yield
        if self.intervals and self.intervals[-1][:2] == (what, epoch):  # the rest of an epoch that was cut
            begun = self.intervals.pop().begun
        self.intervals.append(Interval(what, epoch, begun, now()))
