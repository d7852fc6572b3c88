"""Energy of the timed region: the first rank of the grid on each node reads before it and after it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path

import torch
from mpi4py import MPI
from msgspec import convert

from hpcai import clock
from hpcai.comm import communicators
from hpcai.comm.shutdown import Shutdown
from hpcai.comm.world import broadcast, gather_all
from hpcai.inputfile import Case
from hpcai.inputfile.cases import METER, path_of
from hpcai.inputfile.key import Setting
from hpcai.machine import device as devices
from hpcai.machine.energy_counters import SYSTEM, Counter, NotCountedError, counters
from hpcai.machine.power_meter import joules_between
from hpcai.record.energy import AUTOMATIC, Covers, Energy, Source
from hpcai.record.plain import plain
from hpcai.training.groups import ActiveGroup


class EnergyWindow:
    """Energy of the nodes and GPUs of a grid between the beginning and the end of its timed region.

    All methods are collective over the grid.
    """

    def __init__(self, setting: Setting, comm: MPI.Comm, node: int, gpu: str, root: Path = SYSTEM) -> None:
        """setting: of ENERGY. comm: the ranks of the grid. node: number of this rank's; gpu: identity of its device."""
        here = communicators.split(comm, node, comm.rank)
        gpus = sorted({*gather_all(here, gpu)} - {devices.CPU})
        first = here.rank == 0
        here.Free()
        nodes = communicators.split(comm, 0 if first else MPI.UNDEFINED, comm.rank)
        self._comm, self._reader = comm, _Reader(setting, nodes, gpus, root) if first else None

    @contextmanager
    def region(self, shutdown: Shutdown, earlier: float = 0.0) -> Iterator[None]:
        """Context manager: the block is the timed region; ranks that leave it early sleep until all have left it.

        earlier: seconds since a process began the region that was killed; its counter is lost.
        """
        if self._reader:
            self._reader.begin(earlier)
        self._comm.Barrier()
        yield
        shutdown.barrier(self._comm)
        if self._reader:
            self._reader.end()

    def measured(self) -> Energy:
        """The energy of the last region, the same on every rank; the file of a meter is read now."""
        found = plain(self._reader.measured()) if self._reader else None
        return convert(broadcast(self._comm, found), Energy)

    def free(self) -> None:
        """Give the communicator of the nodes back."""
        if self._reader:
            self._reader.nodes.Free()


def energy_window(case: Case, active: ActiveGroup, device: torch.device) -> EnergyWindow:
    """The window of a test; freed with its group. Collective over the grid."""
    group = active.group
    window = EnergyWindow(case.energy, group.active, active.node, devices.identity(device))
    group.resources["energy"] = window
    return window


class _Reader:
    """Reads a node's counter. Construction and `measured` are collective over the first ranks of the nodes."""

    def __init__(self, setting: Setting, nodes: MPI.Comm, gpus: list[str], root: Path) -> None:
        self.nodes = nodes
        self._setting = setting
        self._counter: Counter | None = None
        self._joules, self._reason = 0.0, ""
        self._source: Source | None = self._given() or self._answering(gpus, root)
        self._unanswered = self._reason

    def _given(self) -> Source | None:
        if isinstance(self._setting, float):
            return "fixed"
        return "meter" if str(self._setting).startswith(METER) else None

    def _answering(self, gpus: list[str], root: Path) -> Source | None:
        """The first source that answers on every node."""
        if self._setting == "none":
            self._reason = "ENERGY none"
            return None
        found, reasons = counters(gpus, root)
        for source in AUTOMATIC:
            if self.nodes.allreduce(int(source in found), MPI.MIN):
                self._counter = found[source]
                return source
        self._reason = self.nodes.allreduce(f"no source on every node: {reasons}", MPI.MAX)
        return None

    def begin(self, earlier: float) -> None:
        self._reason = self._unanswered or ("the test was resumed" if earlier and self._counter else "")
        self._attempt(lambda counter: counter.begin())
        self._utc, self._begun = clock.utc_instant() - timedelta(seconds=earlier), clock.now() - earlier

    def end(self) -> None:
        self._seconds = clock.now() - self._begun
        self._attempt(self._take)

    def _take(self, counter: Counter) -> None:
        self._joules = counter.joules()

    def _attempt(self, read: Callable[[Counter], None]) -> None:
        """Read the counter, unless there is none or it failed before."""
        if self._counter is None or self._reason:
            return
        try:
            read(self._counter)
        except NotCountedError as error:
            self._reason = str(error)

    def measured(self) -> Energy:
        """The energy of all nodes, on the first one; the others' records are of no use."""
        joules, reason = self._total()
        return Energy(
            source=self._source,
            covers=self._covers(),
            nodes=self.nodes.size,
            begun=self._utc.isoformat(timespec="milliseconds"),
            seconds=self._seconds,
            joules=None if reason else joules,
            reason=reason or None,
        )

    def _covers(self) -> Covers | None:
        if self._source is None:
            return None
        return self.nodes.allreduce(self._counter.covers, MPI.MIN) if self._counter else "node"

    def _total(self) -> tuple[float, str]:
        """Joules of all nodes, and why they are not known."""
        joules, reason = self.nodes.allreduce(self._joules), self.nodes.allreduce(self._reason, MPI.MAX)
        if isinstance(self._setting, float):
            return self._setting * self.nodes.size * self._seconds, ""
        return self._metered() if self._source == "meter" and self.nodes.rank == 0 else (joules, reason)

    def _metered(self) -> tuple[float, str]:
        path = Path(path_of(self._setting, METER))
        # the instant as it is recorded
        begun = datetime.fromisoformat(self._utc.isoformat(timespec="milliseconds"))
        try:
            return joules_between(path, begun, self._seconds), ""
        except NotCountedError as error:
            return 0.0, str(error)
