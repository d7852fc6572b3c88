"""The seconds of a test, brought together from all its ranks in constant memory."""

from typing import Any

from mpi4py import MPI

from hpcai.clock import Phases
from hpcai.comm import reductions
from hpcai.comm.grid import Group
from hpcai.comm.shutdown import Shutdown
from hpcai.train import timing
from hpcai.train.loop import Training
from hpcai.train.profile import operation_seconds

PHASES = (
    "start-up",
    "staging",
    "set-up",
    "choice",
    "residuals",
    "probe",
    "beside",
    "warm-up",
    "training",
    "data wait",
    "exposed communication",
    "audit",
    "validation",
    "ensemble",
    "profile",
)


def profiled(training: Training, group: Group, shutdown: Shutdown) -> dict[str, float]:
    """Seconds by class of operation on the first rank; models other than its own wait asleep. Collective."""
    seconds = None
    if group.coordinates.group == 0:
        seconds = operation_seconds(training, group.leader)
    shutdown.barrier(group.active)
    first: dict[str, float] = group.active.bcast(seconds)
    return first


def all_ranks(training: Training, phases: Phases, host: str, comm: MPI.Comm) -> dict[str, Any]:
    """Step times, busy and waiting seconds, and phases of the ranks of `comm`, the same on each. Collective."""
    progress = training.state.progress
    return {
        "step_seconds": timing.of_slowest(training.step_times.statistics(), comm),
        "busy_seconds": timing.spread(timing.busy_seconds(progress), host, comm),
        "waiting_seconds": {
            "data": timing.mean(progress.data_wait_seconds, comm),
            "communication": timing.mean(progress.exposed_seconds, comm),
        },
        "phases": _phases(training, phases, comm),
    }


def _phases(training: Training, phases: Phases, comm: MPI.Comm) -> dict[str, float]:
    """Seconds of the slowest rank by phase, in the order they happen; waiting is part of `training`."""
    progress = training.state.progress
    waiting = {"data wait": progress.data_wait_seconds, "exposed communication": progress.exposed_seconds}
    seconds = {**phases.seconds, **waiting}
    return reductions.largest(comm, {phase: seconds[phase] for phase in PHASES if phase in seconds})
