"""Transfers of tensors between the ranks of a communicator: by MPI through host memory, or by NCCL.

Not within a step's graph of an all-reduce: point to point, so that parts may have any sizes.
"""

from collections.abc import Sequence
from typing import Protocol

import torch
from mpi4py import MPI
from torch import Tensor, distributed

from hpcai.comm.links import as_bytes
from hpcai.comm.rendezvous import subgroup


class Transfers(Protocol):
    """Sends and receives of contiguous tensors; sent: bytes that this rank has sent to others."""

    rank: int
    ranks: int
    sent: int

    def move(self, sent: Sequence[Tensor | None], received: Sequence[Tensor | None]) -> None:
        """Send `sent[r]` to each rank r, and receive `received[r]` from it; None or empty: nothing. Waits for all."""


class MpiTransfers:
    """By a communicator of its own. Tensors of a GPU are copied through host memory."""

    def __init__(self, comm: MPI.Comm) -> None:
        self.rank, self.ranks, self.sent = comm.rank, comm.size, 0
        self._comm = comm

    def move(self, sent: Sequence[Tensor | None], received: Sequence[Tensor | None]) -> None:
        """Both directions at once."""
        arriving = [(rank, part, _on_host(part)) for rank, part in self._others(received)]
        requests = [self._comm.Irecv(as_bytes(host).numpy(), rank) for rank, _, host in arriving]
        for rank, part in self._others(sent):
            self.sent += part.nbytes
            requests.append(self._comm.Isend(as_bytes(part.cpu()).numpy(), rank))
        MPI.Request.Waitall(requests)
        for _, part, host in arriving:
            if host is not part:
                part.copy_(host)

    def _others(self, parts: Sequence[Tensor | None]) -> list[tuple[int, Tensor]]:
        return [(r, part) for r, part in enumerate(parts) if r != self.rank and part is not None and part.numel()]


class NcclTransfers:
    """By a process group, on its GPUs; the host does not wait."""

    def __init__(self, comm: MPI.Comm, members: Sequence[int]) -> None:
        """`members`: numbers of the communicator's ranks in torch's default group. Collective over `comm`."""
        self.rank, self.ranks, self.sent = comm.rank, comm.size, 0
        self._group = subgroup(comm, members)

    def move(self, sent: Sequence[Tensor | None], received: Sequence[Tensor | None]) -> None:
        """In one NCCL group call."""
        calls = []
        for rank in range(self.ranks):
            out, into = sent[rank], received[rank]
            if rank != self.rank and out is not None and out.numel():
                self.sent += out.nbytes
                calls.append(distributed.P2POp(distributed.isend, out, group=self._group, group_peer=rank))
            if rank != self.rank and into is not None and into.numel():
                calls.append(distributed.P2POp(distributed.irecv, into, group=self._group, group_peer=rank))
        for work in distributed.batch_isend_irecv(calls) if calls else ():
            work.wait()


def transfers(comm: MPI.Comm, members: Sequence[int]) -> Transfers:
    """The transfers of a communicator: by NCCL where torch's default group uses it. Collective over `comm`."""
    return NcclTransfers(comm, members) if distributed.get_backend() == "nccl" else MpiTransfers(comm)


def format_of(dimensions: int) -> torch.memory_format:
    """The memory format of what is sent: channels last."""
    return torch.channels_last if dimensions == 4 else torch.contiguous_format


def gathered(moves: Transfers, numbers: Tensor) -> Tensor:
    """Numbers of all ranks, in the order of the ranks: a new first dimension. Not counted as sent."""
    own, before = numbers.reshape(-1), moves.sent
    received = [None if rank == moves.rank else torch.empty_like(own) for rank in range(moves.ranks)]
    moves.move([own] * moves.ranks, received)
    moves.sent = before
    return torch.stack([own if part is None else part for part in received]).view(moves.ranks, *numbers.shape)


def _on_host(tensor: Tensor) -> Tensor:
    return tensor if tensor.device.type == "cpu" else torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
