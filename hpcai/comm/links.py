"""Links between the ranks of a group: by torch.distributed or by MPI, made before the clock and kept with the group."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import ModuleType
from typing import Any, Literal, Protocol

import torch
from mpi4py import MPI
from torch import distributed
from torch.futures import Future

from hpcai.formulas.roofline import moved_in_all_reduce
from hpcai.gradients.layout import LinkName
from hpcai.kernels.wire import vendor

LinkBackend = Literal["gloo", "nccl", "mpi"]
# torch 2.13 has new names for two of them, torch 2.11 only the old ones
REDUCE_SCATTER = getattr(distributed, "reduce_scatter_single", None) or distributed.reduce_scatter_tensor
ALL_GATHER = getattr(distributed, "all_gather_single", None) or distributed.all_gather_into_tensor


def start_all_reduce(vector: torch.Tensor, group: Any = None) -> distributed.Work:
    """Start to sum a vector over all ranks of a process group, in place."""
    return distributed.all_reduce(vector, group=group, async_op=True)


class Timer(Protocol):
    """Measures what the device does between two calls."""

    def begin(self) -> None: ...

    def end(self) -> None: ...


class Workspace:
    """Memory for packing and summing, by name; it grows to the largest size asked for and is never returned."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self._kept: dict[tuple[str, str], torch.Tensor] = {}

    def buffer(self, name: str, kind: str, count: int) -> torch.Tensor:
        """The first `count` elements of torch's type `kind` of the memory of a name."""
        kept = self._kept.get((name, kind))
        if kept is None or len(kept) < count:
            kept = self._kept[name, kind] = torch.empty(count, dtype=getattr(torch, kind), device=self.device)
        return kept[:count]


class BaseLink:
    """What links have in common: counted bytes, buffers, packing."""

    sums_16_bits = False

    def __init__(self, name: LinkName, ranks: int, rank: int, workspace: Workspace, timer: Timer) -> None:
        self.name, self.ranks, self.rank = name, ranks, rank
        self.sent = 0.0
        self.buffer = workspace.buffer
        self._timer = timer
        self._pack = packing_of(workspace.device)

    @contextmanager
    def packing(self) -> Iterator[Any]:
        """The packing functions of the device; their time is measured."""
        self._timer.begin()
        yield self._pack
        self._timer.end()

    def _count(self, vector: torch.Tensor, passes: int) -> None:
        self.sent += passes / 2 * moved_in_all_reduce(vector.nbytes, self.ranks)


def packing_of(device: torch.device) -> ModuleType:
    """The packing functions of a device. The kernels of CPUs are loaded where they are used."""
    if device.type != "cpu":
        return vendor
    from hpcai.kernels.wire import numba_cpu

    return numba_cpu


class TorchLink(BaseLink):
    """Ranks connected by a process group of torch.distributed; gloo in host memory, NCCL in the GPU's."""

    def __init__(
        self, name: LinkName, ranks: int, rank: int, workspace: Workspace, timer: Timer, group: Any = None
    ) -> None:
        """`group`: the process group, by default torch's default one."""
        super().__init__(name, ranks, rank, workspace, timer)
        self._group = group
        self._started: list[distributed.Work] = []
        self.sums_16_bits = self._by_nccl = distributed.get_backend(group) == "nccl"

    def start_all_reduce(self, vector: torch.Tensor) -> Future[list[torch.Tensor]]:
        """Start to sum a vector over all ranks, in place; the future's value is a list of it alone."""
        self._count(vector, 2)
        work = start_all_reduce(vector, self._group)
        if not self._by_nccl:
            self._started.append(work)
        return work.get_future()

    def settle(self) -> None:
        """Wait until gloo is done with started all-reduces, whose values have arrived before.

        Its thread still records their end for torch's profiler, which by then may have freed the record: the write
        damages the heap (torch 2.13, Work::finish).
        """
        while self._started:
            self._started.pop().wait()

    def all_reduce(self, vector: torch.Tensor) -> None:
        """By the backend."""
        self._count(vector, 2)
        if self.ranks > 1:
            distributed.all_reduce(vector, group=self._group)

    def reduce_scatter(self, vector: torch.Tensor, part: torch.Tensor) -> None:
        """By the backend; gloo's own would send as much as an all-reduce, so its parts are sent and summed here."""
        self._count(vector, 1)
        if self._by_nccl:
            REDUCE_SCATTER(part, vector, group=self._group)
            return
        received = self.buffer("parts", "float32", len(vector))
        self._exchange(self._rows(vector), self._rows(received))
        self._pack.sum_rows(received.view(self.ranks, len(part)), part)

    def all_gather(self, part: torch.Tensor, vector: torch.Tensor) -> None:
        """By NCCL as bytes; over gloo each rank sends its part to every other one."""
        self._count(vector, 1)
        if self._by_nccl:
            ALL_GATHER(as_bytes(vector), as_bytes(part), group=self._group)
        else:
            self._exchange([as_bytes(part)] * self.ranks, self._rows(vector))

    def all_to_all(self, vector: torch.Tensor, parts: torch.Tensor) -> None:
        """By NCCL as bytes; over gloo from rank to rank."""
        self._count(vector, 1)
        if self._by_nccl:
            distributed.all_to_all_single(as_bytes(parts), as_bytes(vector), group=self._group)
        else:
            self._exchange(self._rows(vector), self._rows(parts))

    def largest(self, number: torch.Tensor) -> None:
        """By the backend."""
        self._count(number, 2)
        distributed.all_reduce(number, op=distributed.ReduceOp.MAX, group=self._group)

    def _rows(self, vector: torch.Tensor) -> Sequence[torch.Tensor]:
        """The parts of all ranks, as bytes."""
        return as_bytes(vector).view(self.ranks, -1).unbind()

    def _exchange(self, sent: Sequence[torch.Tensor], received: Sequence[torch.Tensor]) -> None:
        """Send `sent[r]` to each rank r, from which `received[r]` comes.

        gloo sends when the receiver is ready, and it says so by the connection that it also sends its own part by: had
        it begun to send, both directions would wait for each other, as in gloo's all-to-all (twice the time, measured).
        """
        others = [(self.rank + step) % self.ranks for step in range(1, self.ranks)]
        works = [distributed.irecv(received[rank], group=self._group, group_src=rank) for rank in others]
        works += [distributed.isend(sent[rank], group=self._group, group_dst=rank) for rank in others]
        received[self.rank].copy_(sent[self.rank])
        for work in works:
            assert work is not None  # this rank is one of the group's
            work.wait()


class MpiLink(BaseLink):
    """Ranks connected by an MPI communicator of their own, in host memory."""

    def __init__(self, name: LinkName, comm: MPI.Comm, workspace: Workspace, timer: Timer) -> None:
        super().__init__(name, comm.size, comm.rank, workspace, timer)
        self._comm = comm

    def all_reduce(self, vector: torch.Tensor) -> None:
        """In place."""
        self._count(vector, 2)
        self._comm.Allreduce(MPI.IN_PLACE, vector.numpy())

    def reduce_scatter(self, vector: torch.Tensor, part: torch.Tensor) -> None:
        """In equal parts."""
        self._count(vector, 1)
        self._comm.Reduce_scatter_block(vector.numpy(), part.numpy())

    def all_gather(self, part: torch.Tensor, vector: torch.Tensor) -> None:
        """As bytes."""
        self._count(vector, 1)
        self._comm.Allgather(as_bytes(part).numpy(), as_bytes(vector).numpy())

    def all_to_all(self, vector: torch.Tensor, parts: torch.Tensor) -> None:
        """As bytes."""
        self._count(vector, 1)
        self._comm.Alltoall(as_bytes(vector).numpy(), as_bytes(parts).numpy())

    def largest(self, number: torch.Tensor) -> None:
        """In place."""
        self._count(number, 2)
        self._comm.Allreduce(MPI.IN_PLACE, number.numpy(), MPI.MAX)


def as_bytes(vector: torch.Tensor) -> torch.Tensor:
    """The same memory as bytes, which all backends send."""
    return vector.view(-1).view(torch.uint8)  # of one column, the last stride may be any number


AnyLink = TorchLink | MpiLink
