"""A case that P groups of Q ranks work on: the grid, the data on each node, and torch's world of a group."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar, cast, get_args

import torch
from mpi4py import MPI

from hpcai.comm.grid import Group, split
from hpcai.comm.rendezvous import process_group
from hpcai.comm.shutdown import Shutdown
from hpcai.comm.world import World, broadcast
from hpcai.data.staging import StagedDataset, staged
from hpcai.errors import DataError
from hpcai.inputfile import Case
from hpcai.record.preflight import SiteFunction, SiteKernels
from hpcai.record.record import Backend
from hpcai.train import own
from hpcai.train import precision as precisions
from hpcai.training.totals import between_nodes

Raw = TypeVar("Raw")


@dataclass(frozen=True)
class ActiveGroup:
    """The group of an active rank with what was made ready for it; all but group and copy is the same on every rank."""

    group: Group
    copy: StagedDataset | None
    backend: Backend
    between_nodes: int
    site_kernels: SiteKernels | None


def in_groups(
    case: Case,
    world: World,
    device: torch.device,
    shutdown: Shutdown,
    measure: Callable[[ActiveGroup], Raw],
) -> Raw | None:
    """What `measure` returns in the groups of a case; None on idle ranks, which sleep. Collective over all ranks."""
    group = split(world.comm, case["GROUPS"], case["DEGREE"], case["MAPPING"])
    node = world.node.bcast(world.rank)  # the rank of its first one
    measured: Raw | None = None
    with staged(case, group, world, shutdown) as copy:
        if group is not None:
            with (
                process_group(group, world.host, device) as backend,
                precisions.switched(case["PRECISION"]),
                own.in_use(case),
            ):
                site = site_kernels(case, group.active)
                measured = measure(ActiveGroup(group, copy, cast(Backend, backend), between_nodes(group, node), site))
            group.free()
        shutdown.barrier(world.comm)
    return measured


def site_kernels(case: Case, comm: MPI.Comm) -> SiteKernels | None:
    """The kernels of the file that a case names, None where it names none.

    DataError if they are others here than on the first rank. Collective over `comm`.
    """
    if not case.own_kernels:
        return None
    computes, digest = own.functions(case.own_kernels)
    expected = broadcast(comm, digest)
    if digest != expected:
        raise DataError(f"{case.own_kernels} has SHA-256 {digest} here; allowed: {expected}, as on rank 0")
    return SiteKernels(sha256=digest, computes=tuple(name for name in get_args(SiteFunction) if name in computes))
