"""Gradient averaging over a group: bucketed all-reduce overlapped with the backward pass, and its exposed time."""

from collections import deque
from typing import Protocol

import torch
from torch.distributed import GradBucket
from torch.futures import Future
from torch.nn.parallel import DistributedDataParallel

from hpcai.clock import now
from hpcai.comm.collectives import TorchLink
from hpcai.comm.grid import Group
from hpcai.gradients.reductions import REDUCTIONS
from hpcai.gradients.reductions.reduction import Reduction
from hpcai.gradients.wires import WIRES
from hpcai.gradients.wires.wire import Wire
from hpcai.inputfile import Case


class ExposedTimer(Protocol):
    """Exposed communication time: from the last bucket of a step to the end of its backward pass.

    One class per device type.
    """

    @property
    def seconds(self) -> float:
        """Exposed seconds of all steps so far. Waits for a GPU."""

    def begin(self) -> None:
        """Called when a bucket is handed over; the last one of a step counts."""

    def end(self) -> None:
        """Called at the end of the backward pass.

        All gradients are averaged, or will be before the device does anything else.
        """


class HostExposedTimer:
    """Exposed communication time on a CPU, by readings of the clock."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._begin: float | None = None

    def begin(self) -> None:
        """Reads the clock."""
        self._begin = now()

    def end(self) -> None:
        """Reads the clock."""
        if self._begin is not None:
            self.seconds += now() - self._begin
            self._begin = None


class CudaExposedTimer:
    """Exposed communication time on a GPU, by CUDA events around the wait for the averaged gradients.

    Events are reused once the device has passed them: the host never waits, and their number is bounded.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._seconds = 0.0
        self._free: list[torch.cuda.Event] = []
        self._begin: torch.cuda.Event | None = None
        self._pairs: deque[tuple[torch.cuda.Event, torch.cuda.Event]] = deque()

    @property
    def seconds(self) -> float:
        """Exposed seconds of all steps so far. Waits for the device, so read it outside the clock."""
        if self._pairs:
            self._pairs[-1][1].synchronize()
        self._add_finished()
        return self._seconds

    def begin(self) -> None:
        """Records an event after the kernels that compute the gradients."""
        self._begin = self._begin or self._event()
        self._begin.record(torch.cuda.current_stream(self._device))

    def end(self) -> None:
        """Records an event after the wait for the averaged gradients."""
        if self._begin is not None:
            end = self._event()
            end.record(torch.cuda.current_stream(self._device))
            self._pairs.append((self._begin, end))
            self._begin = None
            self._add_finished()

    def _event(self) -> torch.cuda.Event:
        return self._free.pop() if self._free else torch.cuda.Event(enable_timing=True)

    def _add_finished(self) -> None:
        while self._pairs and self._pairs[0][1].query():
            begin, end = pair = self._pairs.popleft()
            self._seconds += begin.elapsed_time(end) * 1e-3
            self._free += pair


class Communication:
    """Averages a model's gradients over the ranks of torch's default process group, and times it.

    No communication with one rank. `wire` and `reduction` are the choices of WIRE and ALLREDUCE.
    """

    def __init__(self, ranks: int, device: torch.device, wire: Wire, reduction: Reduction) -> None:
        self.buckets = 0  # buckets of the last step
        self.wire = wire
        self._reduction = reduction
        self._link = TorchLink(ranks)
        self._exposed: ExposedTimer = CudaExposedTimer(device) if device.type == "cuda" else HostExposedTimer()

    @property
    def exposed_seconds(self) -> float:
        """Seconds in which the device only communicated or waited for slower ranks, since construction.

        From the moment the last bucket of a step is ready to the end of the backward pass. Per rank; waits for a GPU.
        """
        return self._exposed.seconds

    def attach(self, replica: DistributedDataParallel) -> None:
        """Average the gradients of this replica from now on."""
        replica.register_comm_hook(self, Communication.average)

    def average(self, bucket: GradBucket) -> Future[torch.Tensor]:
        """Start to average a full bucket while the gradients of earlier layers are still computed."""
        self._exposed.begin()
        self.buckets = max(self.buckets * (bucket.index() > 0), bucket.index() + 1)
        average: Future[torch.Tensor] = self.wire.reduce(
            bucket.buffer(), self._link, self._reduction, self._link.ranks
        )
        return average

    def sum(self, vector: torch.Tensor) -> torch.Tensor:
        """The sum of a vector over the ranks by the path that gradients take; may overwrite it. Collective."""
        total: torch.Tensor = self.wire.reduce(vector, self._link, self._reduction, 1).wait()
        return total

    def end_backward(self) -> None:
        """Must be called when a backward pass has returned."""
        self._exposed.end()


def communication_of(case: Case, group: Group, device: torch.device) -> Communication:
    """The gradient averaging that a case asks for."""
    wire, reduction = WIRES[case.wire], REDUCTIONS[case.allreduce]
    return Communication(group.degree, device, wire(), reduction())
