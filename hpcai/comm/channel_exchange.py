"""Exchanges of channels between the ranks that share a tensor-parallel network.

Tensors are float[N, C, ...] with the channels last in memory, so that the channels of a rank are a block of each row,
or tables float[N, S, C], of which only whole ones are summed.
What a rank sends to the others is packed by receiver. Sums are in fp32, in the order of the ranks, each on one rank:
every rank gets the same bits.
"""

from collections.abc import Sequence

import torch
from mpi4py import MPI
from torch import Tensor

from hpcai.comm.interval_timer import IntervalTimer, interval_timer
from hpcai.comm.links import Workspace
from hpcai.comm.transfers import Transfers, format_of, gathered
from hpcai.networks.collective_layers import channels_of

Bounds = list[tuple[int, int]]


class PackedExchange:
    """The exchange that trains; `timer` measures it, packing included."""

    def __init__(self, transfers: Transfers, device: torch.device) -> None:
        self.rank, self.ranks = transfers.rank, transfers.ranks
        self.timer: IntervalTimer = interval_timer(device)
        self._transfers, self._workspace = transfers, Workspace(device)

    @property
    def sent(self) -> int:
        """Bytes of channels that this rank has sent to others."""
        return self._transfers.sent

    def reduce_scatter(self, partial_sum: Tensor) -> Tensor:
        """The sum over the ranks, of the rank's own channels."""
        self.timer.begin()
        bounds = self._bounds(partial_sum.shape[1])
        own = _with_channels(partial_sum, _width(bounds[self.rank]))
        self._sum_parts(rows_of(partial_sum), bounds, rows_of(own))
        self.timer.end()
        return own

    def all_gather(self, shard: Tensor, channels: int) -> Tensor:
        """The channels of all ranks, so many."""
        self.timer.begin()
        whole = _with_channels(shard, channels)
        self._gather_parts(rows_of(shard), self._bounds(channels), rows_of(whole))
        self.timer.end()
        return whole

    def all_reduce(self, partial_sum: Tensor) -> Tensor:
        """The sum over the ranks, the same bits on each."""
        self.timer.begin()
        whole = torch.empty_like(partial_sum, memory_format=format_of(partial_sum.ndim))
        row = rows_of(partial_sum).reshape(1, -1)
        bounds = self._bounds(row.shape[1])
        own = row.new_empty(1, _width(bounds[self.rank]))
        self._sum_parts(row, bounds, own)
        self._gather_parts(own, bounds, rows_of(whole).view(1, -1))
        self.timer.end()
        return whole

    def largest(self, numbers: Tensor) -> None:
        """Replace numbers by the largest of the ranks'."""
        numbers.copy_(self._of_all_ranks(numbers).amax(0))

    def total(self, numbers: Tensor) -> None:
        """Replace numbers by their sums over the ranks, the same bits on each."""
        numbers.copy_(self._of_all_ranks(numbers).sum(0))

    def _of_all_ranks(self, numbers: Tensor) -> Tensor:
        self.timer.begin()
        every = gathered(self._transfers, numbers)
        self.timer.end()
        return every

    def _bounds(self, channels: int) -> Bounds:
        return [channels_of(rank, self.ranks, channels) for rank in range(self.ranks)]

    def _sum_parts(self, rows: Tensor, bounds: Bounds, own: Tensor) -> None:
        """Sum the columns of this rank's bounds over all ranks' rows."""
        sent = self._parts("sent", rows, [_width(each) for each in bounds])
        for part, (first, end) in zip(sent, bounds, strict=True):
            if part is not None:
                part.copy_(rows[:, first:end])
        received = self._parts("received", rows, [own.shape[1]] * self.ranks)
        self._transfers.move(sent, received)
        first, end = bounds[self.rank]
        _add(own, [rows[:, first:end] if part is None else part for part in received])

    def _gather_parts(self, own: Tensor, bounds: Bounds, whole: Tensor) -> None:
        """Gather the columns of all ranks; `own` are those of this rank's bounds."""
        received = self._parts("received", own, [_width(each) for each in bounds])
        sent = own.contiguous()
        self._transfers.move([sent] * self.ranks, received)
        for part, (first, end) in zip(received, bounds, strict=True):
            whole[:, first:end].copy_(own if part is None else part)

    def _parts(self, name: str, like: Tensor, widths: Sequence[int]) -> list[Tensor | None]:
        """Memory for a part of each other rank, of so many columns."""
        rows, others = len(like), [width * (rank != self.rank) for rank, width in enumerate(widths)]
        kind = str(like.dtype).removeprefix("torch.")
        memory = self._workspace.buffer(name, kind, rows * sum(others)).split([rows * width for width in others])
        return [None if r == self.rank else part.view(rows, -1) for r, part in enumerate(memory)]


class ReplaySums:
    """The sums of a replay: of whole tensors, by MPI in float64."""

    def __init__(self, comm: MPI.Comm) -> None:
        self.rank, self.ranks = comm.rank, comm.size
        self._comm = comm

    def sum(self, summand: Tensor) -> Tensor:
        """The sum over the ranks, in the order of the first rank's memory."""
        host = summand.detach().to("cpu", torch.float64, copy=True, memory_format=torch.contiguous_format)
        self._comm.Allreduce(MPI.IN_PLACE, host.numpy())
        return host.to(summand.device, summand.dtype, memory_format=format_of(summand.ndim))


def rows_of(tensor: Tensor) -> Tensor:
    """A tensor as rows of channels, the same memory if its channels are last there."""
    last = tensor if tensor.ndim == 3 else tensor.movedim(1, -1)
    return last.reshape(-1, last.shape[-1])


def _with_channels(like: Tensor, channels: int) -> Tensor:
    """Memory for a tensor with another number of channels, which are last in memory."""
    shape = (like.shape[0], channels, *like.shape[2:])
    return torch.empty(shape, dtype=like.dtype, device=like.device, memory_format=format_of(like.ndim))


def _width(bounds: tuple[int, int]) -> int:
    return bounds[1] - bounds[0]


def _add(total: Tensor, summands: Sequence[Tensor]) -> None:
    """The sum in fp32, rounded once."""
    if total.dtype in (torch.float32, torch.float64):
        torch.add(summands[0], summands[1], out=total)
        for summand in summands[2:]:
            total.add_(summand)
    else:
        exact = summands[0].float()
        for summand in summands[1:]:
            exact.add_(summand)
        total.copy_(exact)
