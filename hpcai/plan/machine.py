"""The nodes of a plan: as the command line describes them, else as this one; memory of a rank there."""

import os
from dataclasses import dataclass

import torch

from hpcai.errors import InputError
from hpcai.estimate.communication import LINK
from hpcai.machine import device as devices
from hpcai.machine import launcher, memory
from hpcai.machine.affinity import cores, own_cpus
from hpcai.machine.memory import Limit
from hpcai.plan.node import PlannedNode

CROWDED = 8  # at most so many ranks on each core of a node
GB, GIB = 1e9, 2**30


@dataclass(frozen=True)
class PlannedMachine:
    """Nodes of `ranks` ranks, `cores` cores and `gpus` GPUs; `link`: bytes/s each way between two of them.

    here: the device of this process, by which steps are timed. device: that of the ranks. given: as the command line
    describes the nodes.
    """

    given: PlannedNode
    ranks: int
    cores: int
    gpus: int
    link: float
    here: torch.device
    device: torch.device
    cores_here: int

    @property
    def timed(self) -> bool:
        """Whether steps timed here say something about the ranks: both compute on GPUs, or both on CPUs."""
        return self.here.type == self.device.type

    @property
    def threads(self) -> int:
        """Threads of a rank."""
        return max(1, self.cores // self.ranks)

    def limit(self, own: int) -> Limit:
        """Bytes that a rank may use; `own`: of this process, which are free again when the ranks run."""
        if self.gpus:
            if self.given.gpu_memory is not None:
                return Limit(self.given.gpu_memory, "--gpu-memory")
            return limit_of_rank(self.here, 1)
        if self.given.memory is not None:
            return Limit(self.given.memory // self.ranks, shared_by("--node-memory", self.ranks))
        free = limit_of_rank(self.here, 1)
        return Limit((free.nbytes + own) // self.ranks, shared_by(free.source, self.ranks))

    def notes(self, ranks: int) -> tuple[str, ...]:
        """The nodes, if there are several or they are described, and how this machine differs from them."""
        if not self.given.described:
            return (f"Nodes: like this one, {self.ranks} ranks on each",) if self.ranks < ranks else ()
        nodes = -(-ranks // self.ranks)
        gpus = f", {self.gpus} GPUs" if self.gpus else ""
        return (
            f"Nodes: {nodes} of {self.ranks} ranks, {self.cores} cores{gpus}; {self.link / GB:g} GB/s between them",
            *self._differences(),
        )

    def _differences(self) -> tuple[str, ...]:
        differing = []
        if self.cores != self.cores_here:
            differing.append(f"{self.cores_here} cores")
        if self.gpus != devices.accelerators():
            differing.append(f"{devices.accelerators()} GPUs")
        if self.given.memory is not None:
            differing.append(f"{memory.available().nbytes / GIB:.1f} GiB free")
        if not differing:
            return ()
        times = "seconds are of this machine's processors" if self.timed else "seconds are not estimated"
        return (f"Warning: planned on a machine of another kind, with {', '.join(differing)}: {times}",)


def described(node: PlannedNode, ranks: int) -> PlannedMachine:
    """The nodes for so many ranks; InputError if their description is impossible."""
    available, cores_here = devices.accelerators(), len(cores(own_cpus()))
    gpus = available if node.gpus is None else node.gpus
    processors = node.cores or cores_here
    full = node.ranks or (ranks_of_node(ranks, gpus, 1) if gpus else ranks_of_node(ranks, processors, CROWDED))
    if gpus and full > gpus:
        raise InputError(f"command line: {full} ranks on nodes of {gpus} GPUs; allowed: --per-node up to {gpus}")
    if gpus and not available and node.gpu_memory is None:
        raise InputError("command line: there is no GPU here, so --node-gpus needs --gpu-memory; allowed: as 80G")
    here = devices.first() if available and gpus else torch.device("cpu")
    device = here if here.type == "cuda" or not gpus else torch.device("cuda")
    return PlannedMachine(node, min(full, ranks), processors, gpus, node.link or LINK, here, device, cores_here)


def ranks_of_node(ranks: int, processors: int, most: int) -> int:
    """Number of ranks on a node: as many as a launcher started here, else all that one node can hold.

    `processors` are the node's GPUs or cores; with more than `most` ranks for each, several nodes are assumed.
    """
    local = next((int(os.environ[name]) for name in launcher.LOCAL_SIZES if os.environ.get(name, "").isdecimal()), 0)
    return local or (ranks if ranks <= most * processors else processors)


def limit_of_rank(device: torch.device, node_ranks: int) -> Limit:
    """Bytes that a rank like this one may use: of its GPU, or an equal share of the node's memory."""
    if device.type == "cuda":
        return Limit(devices.free_memory(device), f"the free memory of {devices.name(device)}")
    free = memory.available()
    return Limit(free.nbytes // node_ranks, shared_by(free.source, node_ranks))


def shared_by(source: str, ranks: int) -> str:
    """The source of a limit that ranks of a node share."""
    return f"{source}, shared by {ranks} ranks" if ranks > 1 else source
