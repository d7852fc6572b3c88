"""Collectives over all ranks, within and across the groups of a process grid, and within and between nodes."""

from collections.abc import Callable, Iterator
from dataclasses import asdict
from functools import partial
from typing import Any

import torch

from hpcai.comm.collective_timing import CollectiveMemory, CollectiveTimer
from hpcai.comm.collectives import Backend, Mpi, Torch
from hpcai.comm.grid import Group, split
from hpcai.comm.rendezvous import backend, torch_world
from hpcai.comm.scopes import Scope, scopes
from hpcai.comm.shutdown import Shutdown
from hpcai.comm.world import World, broadcast
from hpcai.inputfile import Case
from hpcai.machine import memory
from hpcai.result.collectives import COLLECTIVES, TOO_SMALL, elements
from hpcai.training.groups import Measurement, Stopped

Tell = Callable[[str, float], None]

LARGE = 2**20  # bytes


def run(
    case: Case, seed: int, world: World, device: torch.device, tell: Tell, shutdown: Shutdown
) -> Measurement | Stopped | None:
    """Measure one case; None on ranks that stay idle, which sleep until it is over. Collective over all ranks.

    When `ending` says so, it stops before the next row and returns those there are. `tell` hears what is measured next,
    and the share of the rows that are done. `seed` changes nothing: the data are the same in every run.
    """
    node = world.node.bcast(world.rank)
    group = split(world.comm, case["GROUPS"], case["DEGREE"], case["MAPPING"])
    measurement: Measurement | Stopped | None = None
    if group is not None:
        measurement = _measure(case, group, node, world.host, device, tell, shutdown)
        group.free()
    shutdown.barrier(world.comm)
    return measurement


def _measure(
    case: Case, group: Group, node: int, host: str, device: torch.device, tell: Tell, shutdown: Shutdown
) -> Measurement | Stopped:
    """Scope after scope; active ranks that have no part in one wait asleep."""
    name = backend(group.active, device)
    raw: Measurement = {"rows": [], "skipped": []}
    with scopes(group, node) as (found, skipped):
        raw["skipped"] += [{"scope": scope, "why": why} for scope, why in skipped.items()]
        for number, scope in enumerate(found):
            own = _Rows(case["SIZES"], scope, name, device, partial(_tell, tell, number, len(found)))
            if scope.joined:
                own.measure(host, shutdown)
            stopped = shutdown.agreed(group.active)
            told = broadcast(group.active, own.raw)
            raw = {part: raw[part] + told[part] for part in raw}
            if stopped:
                return Stopped(raw)
    return raw


def _tell(tell: Tell, done: int, scopes: int, text: str, share: float) -> None:
    """Tell how far the case has come from how far its present scope has."""
    tell(text, (done + share) / scopes)


class _Rows:
    """The rows of one scope, backend by backend, all sizes of a collective together."""

    def __init__(self, sizes: tuple[int, ...], scope: Scope, name: str, device: torch.device, tell: Tell) -> None:
        self.raw: Measurement = {"rows": [], "skipped": []}
        self._sizes, self._scope, self._name, self._device, self._tell = sizes, scope, name, device, tell

    def measure(self, host: str, shutdown: Shutdown) -> None:
        """Collective over the scope's members."""
        with torch_world(self._scope.own, self._name, host, self._device):
            for _ in self._steps():
                if shutdown.agreed(self._scope.members):
                    break

    def _steps(self) -> Iterator[None]:
        """Stops before every row."""
        backends: tuple[Backend, ...] = (Torch(self._name, self._device), Mpi(self._scope.own))
        rooms = {at: CollectiveMemory(self._scope, max(self._sizes), at) for at in {by.device: by for by in backends}}
        for number, by in enumerate(backends):
            bench = CollectiveTimer(by, self._scope, rooms[by.device])
            for place, collective in enumerate(COLLECTIVES):
                which = {"scope": self._scope.name, "by": by.by, "collective": collective}
                yield
                if why := bench.lacks(collective):
                    self.raw["skipped"].append({**which, "why": why})
                    continue
                done = (number + place / len(COLLECTIVES)) / len(backends)
                for nbytes in self._sizes:
                    yield
                    self._tell(f"{collective} over {which['scope']} by {by.by}, {nbytes} bytes", done)
                    self._row(bench, which, nbytes)

    def _row(self, bench: CollectiveTimer, which: dict[str, Any], nbytes: int) -> None:
        count = elements(which["collective"], nbytes, self._scope.ranks)
        if nbytes >= LARGE:
            memory.give_back()  # what a backend needs for itself leaves holes that the next size does not fit into
        if count:
            self.raw["rows"].append(asdict(bench.row(which["collective"], count)))
        else:
            self.raw["skipped"].append({**which, "nbytes": nbytes, "why": TOO_SMALL})
