"""Choice of the path of an all-reduce before the clock: the cheapest that a case may use, at its gradients' size.

All groups of a case use the same path, so that its row is one of it.
"""

from statistics import median
from typing import get_args

import torch
from mpi4py import MPI
from msgspec import convert

from hpcai.clock import now, processor_seconds, synchronise
from hpcai.comm.group_links import GroupLinks, Path
from hpcai.comm.links import LinkBackend
from hpcai.errors import InputError
from hpcai.gradients.reductions import algorithms
from hpcai.inputfile import Case
from hpcai.record.all_reduce import TimedPath
from hpcai.train.all_reduce_paths import paths_of
from hpcai.train.communication import Communication

BUCKET = 25 * 2**18  # elements of torch's buckets, 25 MiB of fp32
CALLS = 3  # timed of each path, after one discarded


def choose(case: Case, communication: Communication, elements: int, device: torch.device, comm: MPI.Comm) -> None:
    """Use the path of least cost from now on, also in later trainings of the group. Collective over `comm`, all groups.

    elements: gradients of a step. Nothing is timed where there is one path.
    """
    links = communication.group_links
    if links is None:
        return
    paths = _common(case, links, comm)
    if links.chosen is None and len(paths) > 1:
        timed = {path: _timed(communication, path, elements, device, comm) for path in paths}
        links.trials = tuple(timed.values())
        links.chosen = min(paths, key=lambda path: timed[path].cost)
    communication.use(links.chosen or paths[0])


def _common(case: Case, links: GroupLinks, comm: MPI.Comm) -> list[Path]:
    """The paths that every group can use, the same on every rank."""
    own = paths_of(case, links)
    every = [Path(name, by) for name in algorithms(case.allreduce) for by in get_args(LinkBackend)]
    common = [path for path in every if comm.allreduce(int(path in own), MPI.MIN)]
    if not common:
        raise InputError(f"ALLREDUCE {case.allreduce}: no algorithm suits the nodes of all groups")
    return common


def _timed(
    communication: Communication, path: Path, elements: int, device: torch.device, comm: MPI.Comm
) -> TimedPath:
    """Cost of a path for a step's gradients, bucket by bucket, on the slowest rank; all groups at once."""
    communication.use(path)
    sizes = [BUCKET] * (elements // BUCKET) + [elements % BUCKET] * (elements % BUCKET > 0)
    vector = torch.ones(max(sizes), device=device)
    taken = []
    for _ in range(1 + CALLS):
        vector.fill_(1.0)  # sums of sums would overflow
        synchronise(device)
        comm.Barrier()
        begin, used = now(), processor_seconds()
        for size in sizes:
            communication.sum(vector[:size])
        synchronise(device)
        own = now() - begin, (processor_seconds() - used) / torch.get_num_threads()
        taken.append([comm.allreduce(seconds, MPI.MAX) for seconds in own])
    seconds, processor = (median(each) for each in zip(*taken[1:], strict=True))
    return convert(
        {"algorithm": path.reduction, "by": path.by, "seconds": seconds, "processor": processor}, TimedPath
    )
