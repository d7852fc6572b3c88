"""A case that P groups of Q ranks work on: the grid, the data on each node, and torch's world of a group."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from hpcai.comm.ending import Ending
from hpcai.comm.grid import Group, split
from hpcai.comm.rendezvous import process_group
from hpcai.comm.world import World
from hpcai.data.stage import Staged, staged
from hpcai.inputfile import Case
from hpcai.train import own
from hpcai.train import precision as precisions
from hpcai.workloads.totals import between_nodes

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
    ending: Ending,
    measure: Callable[[Group, Staged | None], Measurement | Stopped],
) -> Measurement | Stopped | None:
    """What `measure` finds in the groups of a case; None on idle ranks, which sleep. Collective over all ranks."""
    group = split(world.comm, case["GROUPS"], case["DEGREE"], case["MAPPING"])
    node = world.node.bcast(world.rank)  # the rank of its first one
    measurement: Measurement | Stopped | None = None
    with staged(case, seed, group, world, ending) as copy:
        if group is not None:
            with (
                process_group(group, world.host, device) as backend,
                precisions.switched(case["PRECISION"]),
                own.in_use(case),
            ):
                measurement = measure(group, copy)
            if not isinstance(measurement, Stopped):
                measurement |= own.described(case, group.active)
                measurement |= {"backend": backend, **between_nodes(group, node)}
                if copy is not None:
                    measurement["staging"] = copy.measured
            group.free()
        ending.barrier(world.comm)
    return measurement
