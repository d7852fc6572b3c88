"""Measures one case after the other; where a rank is lost, a case goes on without the groups that lost one."""

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import partial

import torch
from mpi4py import MPI
from msgspec import convert

from hpcai.comm import rank_watch, survival
from hpcai.comm import world as worlds
from hpcai.comm.grid_coordinates import groups_with
from hpcai.comm.shutdown import Shutdown
from hpcai.comm.world import World, broadcast
from hpcai.errors import HpcaiError
from hpcai.inputfile import Case
from hpcai.inputfile.key import Value
from hpcai.machine import memory
from hpcai.machine.affinity import Placement
from hpcai.monitoring.memory_usage import Usage, explained_shortage
from hpcai.monitoring.node_telemetry import Monitor
from hpcai.monitoring.wall_clock import WallClock
from hpcai.record.plain import plain
from hpcai.record.record import Record
from hpcai.recorder import Recorder
from hpcai.results.lost_groups import lost_ranks
from hpcai.results.measured import Measured, Stopped
from hpcai.watch import activity
from hpcai.workloads import registry


class Attempts:
    """Measures cases and records them. All methods are collective over all ranks that are left."""

    def __init__(
        self,
        world: World,
        placement: Placement,
        device: torch.device,
        shutdown: Shutdown,
        usage: Usage,
        recorder: Recorder,
        settings: Mapping[str, Value],
    ) -> None:
        """settings: of the run."""
        self._world, self._placement, self._device = world, placement, device
        self._interval = float(settings["TELEMETRY"])
        self._usage, self._recorder, self._wall = usage, recorder, WallClock(world)
        self._code: int | None = None  # of the exit, when the recorder has ended
        self._watch(shutdown)

    def _watch(self, shutdown: Shutdown) -> None:
        self.shutdown = shutdown
        self._monitor = Monitor(self._world, self._placement, self._device, self._interval)

    def run(self, cases: Sequence[Case]) -> int:
        """Measure the cases in their order, and end the run; its exit code.

        After a loss, also one in the loss of another rank, all go on with the test at which rank 0 is.
        """
        left = list(cases)
        while True:
            try:
                while left:
                    left = left[1:] if self._goes_on_after(left[0]) else []
                self.shutdown.close()
                return self._closed()
            except survival.ERRORS as error:
                left = self._recovered(error, left, cases)

    def _goes_on_after(self, case: Case) -> bool:
        """Whether the run goes on after a case, which has ended or was broken off."""
        lost = survival.lost(self._world)
        left = without_lost(case, lost)
        if left is None:
            self._recorder.break_off(case, lost_ranks(lost), None)
            return False
        return self._attempt(left)

    def _attempt(self, case: Case) -> bool:
        world, shutdown, monitor = self._world, self.shutdown, self._monitor
        begun = not shutdown.agreed(world.comm)
        self._usage.begin()
        with (
            activity.test(case.index, case.workload),
            monitor.watching(case),
            explained_shortage(case),
            self._wall.watching(),
        ):
            measured = self._on_first(case, self._measure(case)) if begun else None
        used, seen, taken = self._usage.measured(case), monitor.measured(), self._wall.measured()
        if shutdown.agreed(world.comm) and _unfinished(world, measured):
            self._recorder.break_off(case, shutdown.cause, measured)
            return False
        if used is not None and measured is not None and not isinstance(measured, Stopped):
            with activity.phase("results"):
                self._recorder.enter(case, Measured(measured, used, seen, taken))
        memory.release_unused()  # a model is part of cycles; its memory must be free before the next one's
        return True

    def _measure(self, case: Case) -> Record | Stopped | None:
        """Measurements of a case by its workload; None on idle ranks. Its modules are loaded on first use."""
        measure = registry.part(case.workload, "measure")
        told = partial(self._recorder.progress, case), self.shutdown, self._recorder.folder
        found: Record | Stopped | None = measure.run(case, self._world, self._device, *told)
        return found

    def _closed(self) -> int:
        """End the recorder, once; its exit code, the same on all ranks."""
        if self._code is None:
            self._code = self._recorder.close()
        return int(broadcast(self._world.comm, self._code))

    def _recovered(self, error: BaseException, left: Sequence[Case], cases: Sequence[Case]) -> list[Case]:
        """Go on with the ranks that are left, of which some may be lost meanwhile; what is still to be measured.

        Raises an error that is no loss.
        """
        while True:
            try:
                self._begin_again(survival.recover(self._world, error))
                return self._those_of_first(left, cases)
            except survival.ERRORS as another:
                if another is error:
                    raise
                error = another

    def _begin_again(self, lost: list[int]) -> None:
        """This rank ends where rank 0 is lost: the watcher has said so."""
        if 0 in lost:
            worlds.leave(HpcaiError.exit_code)
        rank_watch.outlasted()
        memory.release_unused()
        self._watch(Shutdown(self._world.comm, self.shutdown.limit))

    def _those_of_first(self, left: Sequence[Case], cases: Sequence[Case]) -> list[Case]:
        """The cases that rank 0 has still to measure, the same on all ranks: others may be one further or behind."""
        missing = [case for case in left if case.index > self._recorder.last]
        count = broadcast(self._world.comm, len(missing))
        return list(cases[len(cases) - count :])

    def _on_first(self, case: Case, measured: Record | Stopped | None) -> Record | Stopped | None:
        """What was measured, on the first rank as well, whose group may be lost."""
        comm = self._world.comm
        first = comm.allreduce(comm.size if measured is None else comm.rank, MPI.MIN) if case.lost else 0
        if first in (0, comm.size):
            return measured
        stopped, name, values = json.loads(comm.bcast(_text(measured), first))
        found: Record = convert(values, getattr(registry.part(case.workload, "record"), name))
        return Stopped(found) if stopped else found


def without_lost(case: Case, lost: Iterable[int]) -> Case | None:
    """A case without the groups that have lost a rank; None where it cannot go on. lost: numbers of ranks."""
    if not lost:
        return case
    if not registry.workload(case.workload).outlasts:
        return None
    gone = groups_with(lost, case)
    return case.without(gone) if len(gone) < case.planned_groups else None


def _text(measured: Record | Stopped | None) -> str:
    """Measurements as text, with the name of their record; empty where there are none."""
    stopped = isinstance(measured, Stopped)
    record = measured.raw if isinstance(measured, Stopped) else measured
    return json.dumps([stopped, type(record).__name__, plain(record)]) if record else ""


def _unfinished(world: World, measured: Record | Stopped | None) -> bool:
    """Whether no rank has completed the case; idle ranks measure nothing. Collective."""
    finished = measured is not None and not isinstance(measured, Stopped)
    return not world.comm.allreduce(int(finished), MPI.MAX)
