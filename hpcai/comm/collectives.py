"""Collectives by torch.distributed and by MPI, as calls that are prepared before the clock starts."""

from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

import torch
from mpi4py import MPI
from torch import distributed

from hpcai.comm.group_links import GroupLinks
from hpcai.comm.links import ALL_GATHER, REDUCE_SCATTER, start_all_reduce
from hpcai.formulas.collectives import BackendName, TrainingBackend
from hpcai.gradients.reductions import REDUCTIONS

Call = Callable[[], Any]


class Backend(Protocol):
    """Prepares calls of fp32 collectives on one-dimensional tensors on `device`.

    all_reduce and broadcast work in place, on `receive`; reduce_scatter and all_gather do not. The root is rank 0. A
    call is collective over a communicator; on a GPU it may return before the collective has finished. hierarchical and
    torus are all-reduces in phases, of backends that have the links for them.
    """

    by: BackendName
    device: torch.device

    def all_reduce(self, send: torch.Tensor, receive: torch.Tensor) -> Call:
        """The sum over all ranks, on every rank."""

    def reduce_scatter(self, send: torch.Tensor, receive: torch.Tensor) -> Call:
        """Part r of the sum over all ranks, on rank r."""

    def all_gather(self, send: torch.Tensor, receive: torch.Tensor) -> Call:
        """The data of all ranks in rank order, on every rank."""

    def broadcast(self, send: torch.Tensor, receive: torch.Tensor) -> Call:
        """The data of rank 0, on every rank."""

    def hierarchical(self, send: torch.Tensor, receive: torch.Tensor) -> Call:
        """The sum over all ranks, on every rank."""

    def torus(self, send: torch.Tensor, receive: torch.Tensor) -> Call:
        """The sum over all ranks, on every rank."""


class InPhases:
    """All-reduces in phases, over the links of a communicator's ranks by one backend."""

    by: BackendName

    def __init__(self, links: GroupLinks | None) -> None:
        """`links`: None where they are not measured."""
        self._group_links = links

    def hierarchical(self, send: torch.Tensor, receive: torch.Tensor) -> Call:
        """In place."""
        return self._sum("hierarchical", receive)

    def torus(self, send: torch.Tensor, receive: torch.Tensor) -> Call:
        """In place."""
        return self._sum("torus", receive)

    def _sum(self, name: str, vector: torch.Tensor) -> Call:
        assert self._group_links is not None, "no links for all-reduces in phases"
        reduction = REDUCTIONS[name]()
        links = self._group_links.by(self.by, reduction.links)
        return partial(reduction.sum, vector, links, lambda part, link, _: link.all_reduce(part))


class Torch(InPhases):
    """The ranks of torch's default group; gloo works in host memory even if the ranks compute on GPUs.

    The all-reduce is the one that sums gradients where ALLREDUCE is flat.
    """

    def __init__(self, by: TrainingBackend, device: torch.device, links: GroupLinks | None = None) -> None:
        super().__init__(links)
        self.by: BackendName = by
        self.device = device if by == "nccl" else torch.device("cpu")

    def all_reduce(self, send: torch.Tensor, receive: torch.Tensor) -> Call:
        """In place."""
        return lambda: start_all_reduce(receive).wait()

    def reduce_scatter(self, send: torch.Tensor, receive: torch.Tensor) -> Call:
        """Out of place, as in sharded training."""
        return partial(REDUCE_SCATTER, receive, send)

    def all_gather(self, send: torch.Tensor, receive: torch.Tensor) -> Call:
        """Out of place."""
        return partial(ALL_GATHER, receive, send)

    def broadcast(self, send: torch.Tensor, receive: torch.Tensor) -> Call:
        """In place."""
        return partial(distributed.broadcast, receive, 0)


class Mpi(InPhases):
    """The ranks of an MPI communicator, in host memory."""

    by: BackendName = "mpi"
    device = torch.device("cpu")

    def __init__(self, comm: MPI.Comm, links: GroupLinks | None = None) -> None:
        super().__init__(links)
        self._comm = comm

    def all_reduce(self, send: torch.Tensor, receive: torch.Tensor) -> Call:
        """In place."""
        return partial(self._comm.Allreduce, MPI.IN_PLACE, receive.numpy())

    def reduce_scatter(self, send: torch.Tensor, receive: torch.Tensor) -> Call:
        """Out of place, in equal parts."""
        return partial(self._comm.Reduce_scatter_block, send.numpy(), receive.numpy())

    def all_gather(self, send: torch.Tensor, receive: torch.Tensor) -> Call:
        """Out of place."""
        return partial(self._comm.Allgather, send.numpy(), receive.numpy())

    def broadcast(self, send: torch.Tensor, receive: torch.Tensor) -> Call:
        """In place."""
        return partial(self._comm.Bcast, receive.numpy(), 0)
