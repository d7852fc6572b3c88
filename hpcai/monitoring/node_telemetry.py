"""Telemetry of the nodes of a test's grid: the first rank of each node samples it; combined after the test."""

from collections.abc import Iterator
from contextlib import contextmanager
from math import inf, isfinite, nan

import numpy as np
import torch
from mpi4py import MPI

from hpcai.comm.grid_coordinates import coordinates
from hpcai.comm.world import World, gather_all
from hpcai.inputfile import Case
from hpcai.machine import device as devices
from hpcai.machine.affinity import Placement
from hpcai.machine.node_sensors import NAMES, SHARES, NodeSensors
from hpcai.machine.telemetry import Sampler, Series, means
from hpcai.monitoring.over_nodes import further, over_nodes
from hpcai.record.machine import Quantities, Telemetry
from hpcai.workloads import registry


def takes_part(case: Case, rank: int) -> bool:
    """Whether a rank of that number takes part in a test: in a table, and without a grid, all do."""
    if not registry.workload(case.workload).digit or "GROUPS" not in case.settings:
        return True
    found = coordinates(rank, case.planned_groups, case.degree, case.mapping)
    return found is not None and found.group not in case.lost


class Monitor:
    """Samples processors, memory, GPUs and links of nodes, at least every `interval` seconds; 0 turns it off."""

    def __init__(self, world: World, placement: Placement, device: torch.device, interval: float) -> None:
        """Collective over the node; `interval` is the same on every rank."""
        cpus = {cpu for cpus in gather_all(world.node, placement.cpus) for cpu in cpus}
        gpus = {*gather_all(world.node, devices.identity(device))} - {devices.CPU}
        self._world, self._interval = world, interval
        self._series, self._active = Series(), False
        samples = interval > 0 and world.node.rank == 0
        self._gauges = NodeSensors(sorted(cpus), sorted(gpus)) if samples else None

    @contextmanager
    def watching(self, case: Case) -> Iterator[None]:
        """Context manager: sample the nodes of the case's grid while the block runs; they begin at the same time.

        Collective over the world at its beginning.
        """
        self._series = Series()
        self._active = bool(self._world.node.allreduce(int(takes_part(case, self._world.number)), MPI.MAX))
        self._world.comm.Barrier()
        if not self._samples:
            yield
            return
        assert self._gauges
        self._gauges.begin()
        sampler = Sampler(self._gauges.read, self._interval)
        try:
            yield
        finally:
            self._series = sampler.end()

    @property
    def _samples(self) -> bool:
        """Whether this rank samples its node in the current test."""
        return self._active and self._gauges is not None

    def measured(self) -> Telemetry | None:
        """Telemetry of the last block: averages over time and nodes, and the nodes over time; None without samples.

        Collective over the world. Complete on rank 0, of constant size; averages and maxima are the same on every rank.
        """
        if not self._interval:
            return None
        rows = self._series.rows()
        own = rows if self._samples else None
        nodes = self._world.comm.allreduce(int(self._samples))
        sums = self._over_nodes([nan if mean is None else mean for mean in means(rows)], 0.0, MPI.SUM)
        most = self._over_nodes([inf if value is None else value for value in self._series.maximum], -inf, MPI.MAX)
        # Rounding may lift the mean of equal values above their maximum.
        average = {name: min(sum_ / nodes, most[name]) if isfinite(sum_) else None for name, sum_ in sums.items()}
        maximum = {name: _typed(name, value) if isfinite(value) else None for name, value in most.items()}
        return Telemetry(
            nodes=nodes,
            samples=self._series.count,
            interval=self._series.interval,
            average=Quantities(**average),
            maximum=Quantities(**maximum),
            series=tuple(map(tuple, rows)),
            over_nodes=over_nodes(self._world.comm, own, nodes),
            further=further(self._world, own, nodes),
        )

    def _over_nodes(self, own: list[float], nothing: float, operator: MPI.Op) -> dict[str, float]:
        """The quantities of all nodes brought together; `nothing` stands for ranks that do not sample."""
        values = np.array(own if self._samples else [nothing] * len(NAMES))
        self._world.comm.Allreduce(MPI.IN_PLACE, values, operator)
        return dict(zip(NAMES, values.tolist(), strict=True))


def _typed(name: str, value: float) -> float:
    return value if name in SHARES else int(value)
