"""Measures collectives over all ranks, within and across groups, within and between nodes."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial

import torch
from mpi4py import MPI
from msgspec import convert, to_builtins

from hpcai.comm.collective_timing import CollectiveMemory, CollectiveTimer
from hpcai.comm.collectives import Backend, Mpi, Torch
from hpcai.comm.grid import Group, split
from hpcai.comm.group_links import GroupLinks
from hpcai.comm.rendezvous import backend, torch_world
from hpcai.comm.scopes import Scope, scopes
from hpcai.comm.shutdown import Shutdown
from hpcai.comm.world import World, broadcast
from hpcai.formulas.collectives import ALGORITHMS, CollectiveName, TrainingBackend, elements, measured_in, size
from hpcai.gradients.reductions import REDUCTIONS
from hpcai.inputfile import Case
from hpcai.machine import memory
from hpcai.results.measured import Stopped
from hpcai.workloads.comm.record import (
    CommRaw,
    MeasuredCollective,
    SkippedScope,
    TooSmallCollective,
    UnsupportedCollective,
)

Progress = Callable[[str, float], None]  # called with the next measurement and the share done

LARGE = 2**20  # bytes
UNEQUAL = "nodes with different numbers of ranks"


def run(
    case: Case, world: World, device: torch.device, progress: Progress, shutdown: Shutdown, folder: str = ""
) -> CommRaw | Stopped | None:
    """Measure one case; None on idle ranks, which sleep until it is over. Collective over all ranks.

    On a shutdown it stops before the next row and returns the rows so far. The result is the same on all ranks that
    took part.
    """
    node = world.node.bcast(world.rank)
    group = split(world.comm, case.groups, case.degree, case.mapping)
    measured: CommRaw | Stopped | None = None
    if group is not None:
        measured = _measure(case, group, node, world.host, device, progress, shutdown)
        group.free()
    shutdown.barrier(world.comm)
    return measured


def _measure(
    case: Case, group: Group, node: int, host: str, device: torch.device, progress: Progress, shutdown: Shutdown
) -> CommRaw | Stopped:
    """Measure scope after scope; active ranks outside a scope sleep meanwhile."""
    name = backend(group.active, device)
    with scopes(group, node) as (found, skipped):
        left_out = tuple(SkippedScope(scope=scope, why=why) for scope, why in skipped.items())
        raw = CommRaw(rows=(), skipped=left_out, unsupported=(), too_small=())
        for number, scope in enumerate(found):
            wanted = measured_in(scope.name, case.groups)
            part = _Scope(case["SIZES"], wanted, scope, name, device, partial(_of_all, progress, number, len(found)))
            if scope.joined:
                part.measure(host, shutdown)
            stopped = shutdown.agreed(group.active)
            raw = _joined(raw, convert(broadcast(group.active, to_builtins(part.raw())), CommRaw))
            if stopped:
                return Stopped(raw)
    return raw


def _of_all(progress: Progress, done: int, scopes: int, text: str, share: float) -> None:
    """Report the progress of a case from that of the current scope."""
    progress(text, (done + share) / scopes)


def _joined(raw: CommRaw, part: CommRaw) -> CommRaw:
    return CommRaw(
        rows=raw.rows + part.rows,
        skipped=raw.skipped,
        unsupported=raw.unsupported + part.unsupported,
        too_small=raw.too_small + part.too_small,
    )


class _Scope:
    """The rows of one scope, backend by backend, all sizes of a collective together."""

    def __init__(
        self,
        sizes: tuple[int, ...],
        collectives: Sequence[CollectiveName],
        scope: Scope,
        name: TrainingBackend,
        device: torch.device,
        progress: Progress,
    ) -> None:
        self._rows: list[MeasuredCollective] = []
        self._unsupported: list[UnsupportedCollective] = []
        self._too_small: list[TooSmallCollective] = []
        self._sizes, self._scope, self._name, self._device, self._progress = sizes, scope, name, device, progress
        self._collectives = collectives
        self._links: dict[int, GroupLinks] = {}

    def raw(self) -> CommRaw:
        """What was measured so far."""
        return CommRaw(
            rows=tuple(self._rows), skipped=(), unsupported=tuple(self._unsupported), too_small=tuple(self._too_small)
        )

    def measure(self, host: str, shutdown: Shutdown) -> None:
        """Collective over the scope's members."""
        with torch_world(self._scope.own, self._name, host, self._device):
            for _ in self._steps():
                if shutdown.agreed(self._scope.members):
                    break
            for links in self._links.values():
                links.free()

    def _steps(self) -> Iterator[None]:
        """Stops before every row."""
        links, on_host = self._made_links()
        backends: tuple[Backend, ...] = (Torch(self._name, self._device, links), Mpi(self._scope.own, on_host))
        buffers = {at: CollectiveMemory(self._scope, max(self._sizes), at) for at in {by.device: by for by in backends}}
        for number, by in enumerate(backends):
            timer = CollectiveTimer(by, self._scope, buffers[by.device])
            for place, collective in enumerate(self._collectives):
                yield
                if why := self._refused(collective, links) or timer.lacks(collective):
                    self._unsupported.append(
                        UnsupportedCollective(scope=self._scope.name, by=by.by, collective=collective, why=why)
                    )
                    continue
                done = (number + place / len(self._collectives)) / len(backends)
                for nbytes in self._sizes:
                    yield
                    self._progress(f"{collective} over {self._scope.name} by {by.by}, {nbytes} bytes", done)
                    self._row(timer, by, collective, nbytes)

    def _made_links(self) -> tuple[GroupLinks | None, GroupLinks | None]:
        """For all-reduces in phases, if any: in the memory of the backend that trains, and on the host."""
        if not {*ALGORITHMS} & {*self._collectives}:
            return None, None
        links = GroupLinks(self._scope.own, self._device)
        on_host = links if links.on_host else GroupLinks(self._scope.own, torch.device("cpu"))
        self._links = {id(made): made for made in (links, on_host)}
        return links, on_host

    def _refused(self, collective: CollectiveName, links: GroupLinks | None) -> str:
        """Why the nodes of the scope allow no such all-reduce, the same on every rank; empty if they do."""
        if links is None or collective not in ALGORITHMS:
            return ""
        refused = int(bool(REDUCTIONS[collective]().refusal(lambda: links.layout)))
        return UNEQUAL if self._scope.members.allreduce(refused, MPI.MAX) else ""

    def _row(self, timer: CollectiveTimer, by: Backend, collective: CollectiveName, nbytes: int) -> None:
        scope, ranks = self._scope.name, self._scope.ranks
        count = elements(collective, nbytes, ranks)
        if nbytes >= LARGE:
            memory.release_unused()  # the backend's own buffers fragment memory
        if not count:
            self._too_small.append(TooSmallCollective(scope=scope, by=by.by, collective=collective, nbytes=nbytes))
            return
        timed = timer.row(collective, count)
        measured = MeasuredCollective(
            collective=collective,
            scope=scope,
            by=by.by,
            ranks=ranks,
            nbytes=size(collective, count, ranks),
            count=count,
            seconds=timed.seconds,
            iterations=timed.iterations,
            wrong=timed.wrong,
            second_clock=timed.second_clock,
        )
        self._rows.append(measured)
