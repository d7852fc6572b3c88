"""Runs a case in P groups of Q ranks: process grid, dataset copies on each node, torch's process group."""

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
from hpcai.train import precision as precisions
from hpcai.train import site_kernels
from hpcai.training.totals import between_nodes
from hpcai.watch import activity

Raw = TypeVar("Raw")


@dataclass(frozen=True)
class ActiveGroup:
    """The group of an active rank and its resources; all but group, copy and node is the same on every rank.

    node: number of this rank's, the rank of its first member.
    """

    group: Group
    copy: StagedDataset | None
    backend: Backend
    between_nodes: int
    site_kernels: SiteKernels | None
    node: int


def in_groups(
    case: Case,
    world: World,
    device: torch.device,
    shutdown: Shutdown,
    measure: Callable[[ActiveGroup], Raw],
) -> Raw | None:
    """What `measure` returns in the groups of a case; None on idle ranks, which sleep. Collective over all ranks."""
    group = split(
        world.comm, case.planned_groups, case.degree, case.mapping, case.split, case.lost, world.number
    )
    node = world.node.bcast(world.rank)
    measured: Raw | None = None
    with staged(case, group, world, shutdown) as copy:
        if group is not None:
            activity.enter_group(group.coordinates.group)
            with (
                process_group(group, world.host, device) as backend,
                precisions.switched(case.precision),
                site_kernels.installed_for(case),
            ):
                site = agreed_site_kernels(case, group.active)
                apart = between_nodes(group, node)
                measured = measure(ActiveGroup(group, copy, cast(Backend, backend), apart, site, node))
            group.free()
        shutdown.barrier(world.comm)
    return measured


def agreed_site_kernels(case: Case, comm: MPI.Comm) -> SiteKernels | None:
    """The site kernels that a case names; None if it names none.

    DataError if they differ from those of the first rank. Collective over `comm`.
    """
    if not case.kernels_file:
        return None
    computes, digest = site_kernels.functions(case.kernels_file)
    expected = broadcast(comm, digest)
    if digest != expected:
        raise DataError(f"{case.kernels_file} has SHA-256 {digest} here; allowed: {expected}, as on rank 0")
    return SiteKernels(sha256=digest, computes=tuple(name for name in get_args(SiteFunction) if name in computes))
