"""The links of a group: made when an all-reduce first needs them, before the clock, and freed with the group."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import cast

import torch
from mpi4py import MPI
from torch import distributed

from hpcai.comm import communicators
from hpcai.comm.grid import Group
from hpcai.comm.interval_timer import IntervalTimer, interval_timer
from hpcai.comm.links import AnyLink, LinkBackend, MpiLink, TorchLink, Workspace
from hpcai.comm.nodes import node_numbers
from hpcai.comm.rendezvous import subgroup
from hpcai.gradients.layout import Layout, LinkName
from hpcai.record.all_reduce import TimedPath

NAME = "links"  # of this resource of a group
WHOLE: LinkName = "group"


@dataclass(frozen=True)
class Path:
    """How gradients are summed: the algorithm, and the backend of its links."""

    reduction: str
    by: LinkBackend

    def __str__(self) -> str:
        return f"{self.reduction} by {self.by}"


class GroupLinks:
    """Links between the ranks of a group of two ranks or more, in torch's default process group. All is collective.

    packing: timer of packing, of all links. chosen: the path of all trainings of the group, once it was chosen, and
    `trials` the paths compared.
    """

    def __init__(self, comm: MPI.Comm, device: torch.device, numbers: Sequence[int] | None = None) -> None:
        """numbers: of the ranks in torch's default group, where they are not all of it."""
        self.backends = _backends()
        self.on_host = device.type == "cpu" or "gloo" in self.backends
        self.device = torch.device("cpu") if self.on_host else device
        self.workspace = Workspace(self.device)
        self.packing: IntervalTimer = interval_timer(self.device)
        self.chosen: Path | None = None
        self.trials: tuple[TimedPath, ...] = ()
        self._comm, self._numbers = comm, numbers
        self._comms: dict[LinkName, MPI.Comm] = {}
        self._links: dict[tuple[LinkName, LinkBackend], AnyLink] = {}

    @cached_property
    def layout(self) -> Layout:
        """The nodes of all ranks, which only some algorithms need: memory grows with the ranks."""
        return Layout(node_numbers(self._comm), self._comm.rank)

    def sizes(self, names: Iterable[LinkName]) -> dict[LinkName, int]:
        """Ranks of links that were made."""
        return {name: self._comms[name].size for name in names}

    def by(self, backend: LinkBackend, names: Iterable[LinkName]) -> dict[LinkName, AnyLink]:
        """The links of these names by a backend."""
        for name in names:
            if (name, backend) not in self._links:
                self._links[name, backend] = self._made(name, backend)
        return {name: self._links[name, backend] for name in names}

    def sent(self) -> dict[LinkName, float]:
        """Bytes that this rank has sent so far, by link."""
        total: dict[LinkName, float] = {}
        for (name, _), link in self._links.items():
            total[name] = total.get(name, 0.0) + link.sent
        return total

    def free(self) -> None:
        for comm in self._comms.values():
            comm.Free()

    def _made(self, name: LinkName, backend: LinkBackend) -> AnyLink:
        if name not in self._comms:
            color = 0 if name == WHOLE else min(self.layout.members(name))
            self._comms[name] = communicators.split(self._comm, color, self._comm.rank)
        comm = self._comms[name]
        if backend == "mpi":
            return MpiLink(name, comm, self.workspace, self.packing)
        part = comm.size > 1 and (comm.size < self._comm.size or self._numbers is not None)
        group = subgroup(comm, self._members(name)) if part else None
        return TorchLink(name, comm.size, comm.rank, self.workspace, self.packing, group)

    def _members(self, name: LinkName) -> Sequence[int]:
        """The numbers of a link's ranks in torch's default group."""
        ranks = range(self._comm.size) if name == WHOLE else self.layout.members(name)
        return ranks if self._numbers is None else [self._numbers[rank] for rank in ranks]


def _backends() -> tuple[LinkBackend, ...]:
    """The backend of torch's default group, and for host memory MPI where other threads may call it."""
    backend = cast(LinkBackend, distributed.get_backend())
    if backend == "nccl":
        return (backend,)
    return (backend, "mpi") if MPI.Query_thread() == MPI.THREAD_MULTIPLE else (backend,)


def links_of(group: Group, device: torch.device) -> GroupLinks:
    """The links between the replicas of a group. Collective over these when it is first called."""
    if NAME not in group.resources:
        place, divided = group.place, group.divided
        numbers = [divided.member(replace(place, replica=number)) for number in range(divided.replicas)]
        group.resources[NAME] = GroupLinks(group.replicas, device, numbers if divided.parts > 1 else None)
    return cast(GroupLinks, group.resources[NAME])
