"""Random points of `[toy]`: each rank draws its own, and each group adds its hits up."""

import torch
from mpi4py import MPI

from hpcai import clock
from hpcai.comm.grid import Group, split
from hpcai.comm.shutdown import Shutdown
from hpcai.comm.world import World
from hpcai.inputfile import Case
from hpcai.training.task import Report
from toy_workload.checks import hits_of
from toy_workload.record import ToyRaw


def run(
    case: Case, world: World, device: torch.device, report: Report, shutdown: Shutdown, folder: str
) -> ToyRaw | None:
    """Measure one case; None on idle ranks, and where the run is to end. Collective over all ranks."""
    group = split(world.comm, case.groups, case.degree, case.mapping)
    raw = _measure(case, group, shutdown) if group else None
    shutdown.barrier(world.comm)
    return raw


def _measure(case: Case, group: Group, shutdown: Shutdown) -> ToyRaw | None:
    if shutdown.agreed(group.active):
        return None
    group.active.Barrier()
    begin = clock.now()
    own = hits_of(case, group.coordinates.group * group.degree + group.coordinates.member)
    hits = group.model.allreduce(own)
    seconds = clock.now() - begin
    active = group.active
    raw = ToyRaw(
        points=active.allreduce(case["POINTS"]),
        hits=tuple(group.across.allgather(hits)),
        differing_ranks=active.allreduce(int(hits != group.model.bcast(hits))),
        seconds=active.allreduce(seconds, MPI.MAX),
    )
    group.free()
    return raw
