"""A case that P groups of Q ranks work on: the grid, the data on each node, and torch's world of a group."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from mpi4py import MPI

from hpcai.comm.grid import Group, split
from hpcai.comm.rendezvous import process_group
from hpcai.comm.shutdown import Shutdown
from hpcai.comm.world import World, broadcast
from hpcai.data.staging import StagedDataset, staged
from hpcai.errors import DataError
from hpcai.inputfile import Case
from hpcai.record.record import as_json
from hpcai.train import own
from hpcai.train import precision as precisions
from hpcai.training.totals import between_nodes

Measurement = dict[str, Any]  # raw observations by name, the same on all ranks that took part


@dataclass(frozen=True)
class Stopped:
    """What was measured of a case before the run was to end; the same on all ranks that took part."""

    raw: Measurement


def in_groups(
    case: Case,
    seed: int,
    world: World,
    device: torch.device,
    shutdown: Shutdown,
    measure: Callable[[Group, StagedDataset | None], Measurement | Stopped],
) -> Measurement | Stopped | None:
    """What `measure` finds in the groups of a case; None on idle ranks, which sleep. Collective over all ranks."""
    group = split(world.comm, case["GROUPS"], case["DEGREE"], case["MAPPING"])
    node = world.node.bcast(world.rank)  # the rank of its first one
    measurement: Measurement | Stopped | None = None
    with staged(case, seed, group, world, shutdown) as copy:
        if group is not None:
            with (
                process_group(group, world.host, device) as backend,
                precisions.switched(case["PRECISION"]),
                own.in_use(case),
            ):
                measurement = measure(group, copy)
            if not isinstance(measurement, Stopped):
                measurement |= own_kernels(case, group.active)
                measurement |= {"backend": backend, **between_nodes(group, node)}
                if copy is not None:
                    measurement["staging"] = as_json(copy.measured)
            group.free()
        shutdown.barrier(world.comm)
    return measurement


def own_kernels(case: Case, comm: MPI.Comm) -> Measurement:
    """What a measurement says of the kernels that a case names; nothing where it names none.

    DataError if they are others here than on the first rank. Collective over `comm`.
    """
    if not case.own_kernels:
        return {}
    computes, digest = own.functions(case.own_kernels)
    expected = broadcast(comm, digest)
    if digest != expected:
        raise DataError(f"{case.own_kernels} has SHA-256 {digest} here; allowed: {expected}, as on rank 0")
    return {"own_kernels": {"sha256": digest, "computes": sorted(computes)}}
