"""Time of a whole test on all ranks, by the clock of all reported times and by a second one."""

from collections.abc import Iterator
from contextlib import contextmanager

from mpi4py import MPI

from hpcai import clock
from hpcai.comm.world import World
from hpcai.formulas.clocks import deviation
from hpcai.record.wall_time import WallTime
from hpcai.second_clock import Moment, moment


class WallClock:
    """The two clocks of a rank during a test."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._begin = self._end = Moment(0.0, 0.0)

    @contextmanager
    def watching(self) -> Iterator[None]:
        """A test."""
        self._begin = moment(clock.now)
        yield
        self._end = moment(clock.now)

    def measured(self) -> WallTime:
        """Of the rank on which the clocks differ most, the same on every rank. Collective over all ranks."""
        seconds, second = self._end.first - self._begin.first, self._end.second - self._begin.second
        worst = deviation(seconds, second), seconds, second
        _, seconds, second = self._world.comm.allreduce(worst, MPI.MAX)
        return WallTime(seconds=max(0.0, seconds), second_clock=second)
