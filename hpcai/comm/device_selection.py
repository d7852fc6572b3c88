"""Selection of the device of each rank, before any library creates a GPU context."""

import torch
from mpi4py import MPI

from hpcai.comm.world import World, gather_all, on_all_ranks
from hpcai.errors import LaunchError
from hpcai.machine import device as devices
from hpcai.machine import gpu_assignment


def select_device(world: World) -> torch.device:
    """This rank's GPU, tested and made current, or the CPU if no rank sees a GPU. Collective over all ranks.

    Refused on every rank if only some ranks see GPUs, if two ranks would share a GPU, or if a GPU cannot be used.
    """
    seen: list[str] = []
    on_all_ranks(world.comm, lambda: seen.extend(devices.visible()))
    if not world.comm.allreduce(len(seen), MPI.MAX):
        return torch.device("cpu")
    on_all_ranks(world.comm, lambda: _refuse_without(seen))
    ranks, every = zip(*gather_all(world.node, [world.rank, seen]), strict=True)
    on_all_ranks(world.comm, lambda: gpu_assignment.refuse_sharing(ranks, every))
    taken: list[torch.device] = []
    on_all_ranks(world.comm, lambda: taken.append(devices.take(gpu_assignment.numbers(every)[world.node.rank])))
    return taken[0]


def _refuse_without(seen: list[str]) -> None:
    if not seen:
        raise LaunchError("there is no GPU for this rank, but for others there is; allowed: one for each rank, or none")
