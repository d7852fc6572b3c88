"""Times of a test over all its ranks, in constant memory."""

from typing import NamedTuple

import numpy as np
from mpi4py import MPI

from hpcai import clock
from hpcai.comm import reductions
from hpcai.comm.grid import Group
from hpcai.comm.shutdown import Shutdown
from hpcai.formulas.clocks import unaccounted
from hpcai.record.phases import Phases
from hpcai.record.record import fields
from hpcai.record.training import BusySeconds, OperatorSeconds, StepSeconds, WaitingSeconds
from hpcai.record.wall_time import Accounting
from hpcai.second_clock import raw
from hpcai.train import step_times
from hpcai.train.loop import Training
from hpcai.train.operation_profile import operator_seconds

BEFORE = ("staging", "start_up", "interrupted")  # phases that are not part of a test's own time


class Times(NamedTuple):
    """Times of all ranks, the same on each."""

    step_seconds: StepSeconds
    busy_seconds: BusySeconds
    waiting_seconds: WaitingSeconds
    phases: Phases


def profiled(training: Training, group: Group, shutdown: Shutdown) -> OperatorSeconds:
    """Seconds by class of operator on the first rank; the ranks of other models sleep meanwhile. Collective."""
    seconds = None
    if group.across.rank == 0:
        seconds = operator_seconds(training, group.leader)
    shutdown.barrier(group.active)
    first: OperatorSeconds = group.active.bcast(seconds)
    return first


def times_of(training: Training, phases: clock.Phases, host: str, comm: MPI.Comm) -> Times:
    """Step times, busy and waiting seconds, and phases of the ranks of `comm`, the same on each. Collective."""
    progress = training.state.progress
    return Times(
        step_times.of_slowest(training.step_times.statistics(), comm),
        step_times.spread(step_times.busy_seconds(progress), host, comm),
        WaitingSeconds(
            data=step_times.mean(progress.data_wait_seconds, comm),
            communication=step_times.mean(progress.exposed_seconds, comm),
        ),
        _phases(training, phases, comm),
    )


class PhaseAccount:
    """Adds up the phases of a test on this rank and compares them with the second clock."""

    def __init__(self) -> None:
        self._begun = raw()

    @property
    def wall(self) -> float:
        """Seconds of the test so far, by the second clock."""
        return raw() - self._begun

    def add(self, seconds: float) -> None:
        """Seconds of the test before this process took part in it."""
        self._begun -= seconds

    def closed(self, phases: clock.Phases, comm: MPI.Comm) -> Accounting:
        """Of the rank with the largest difference, the same on each of `comm`. Collective; right after the last phase.
        """
        wall = self.wall
        parts = sum(seconds for name, seconds in phases.seconds.items() if name not in BEFORE)
        worst = unaccounted(parts + phases.between, wall), wall, parts, phases.between
        _, wall, parts, between = comm.allreduce(worst, MPI.MAX)
        return Accounting(wall=wall, phases=parts, between=between)


def _phases(training: Training, phases: clock.Phases, comm: MPI.Comm) -> Phases:
    """Seconds of the slowest rank by phase, in chronological order; waits are part of `training`."""
    progress = training.state.progress
    waits = {"data_wait": progress.data_wait_seconds, "exposed_communication": progress.exposed_seconds}
    seconds = {**phases.seconds, **waits}
    known = np.array([field.name in seconds for field in fields(Phases)])
    comm.Allreduce(MPI.IN_PLACE, known, MPI.LOR)  # one model may be resumed, and others not
    names = [field.name for field, there in zip(fields(Phases), known, strict=True) if there]
    return Phases(**reductions.largest(comm, {name: seconds.get(name, 0.0) for name in names}))
