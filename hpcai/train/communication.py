"""Gradients averaged over a group bucket by bucket while the backward pass runs, and what of that it could not hide."""

from collections import deque
from collections.abc import Mapping
from typing import Any, Protocol

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


class Exposed(Protocol):
    """Seconds from the last bucket of a step to the end of its backward pass; one for each kind of device."""

    @property
    def seconds(self) -> float:
        """All steps so far; reading it may wait for the device."""

    def begin(self) -> None:
        """A bucket is handed over; the last one of a step counts."""

    def end(self) -> None:
        """The backward pass is over: all gradients are averaged, or will be before the device does anything else."""


class HostExposed:
    """The device is the CPU: what was asked for is done, so the clock is read."""

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


class CudaExposed:
    """Measured on the device: from the moment it has the last gradients to the moment it goes on with their averages.

    The events are used again once the device has come past them: nobody waits for it, and they do not become more.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._seconds = 0.0
        self._free: list[torch.cuda.Event] = []
        self._begin: torch.cuda.Event | None = None
        self._pairs: deque[tuple[torch.cuda.Event, torch.cuda.Event]] = deque()

    @property
    def seconds(self) -> float:
        """Seconds so far; waits for the device, so read it outside the clock."""
        if self._pairs:
            self._pairs[-1][1].synchronize()
        self._add_finished()
        return self._seconds

    def begin(self) -> None:
        """Puts an event behind what computes the gradients."""
        self._begin = self._begin or self._event()
        self._begin.record(torch.cuda.current_stream(self._device))

    def end(self) -> None:
        """Puts an event behind the wait for the averages."""
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
    """Averages a model's gradients over the ranks of torch's default group, and measures what that costs.

    With one rank there is nothing to do. `wire` and `reduction` are what ALLREDUCE and WIRE name.
    """

    def __init__(self, ranks: int, device: torch.device, wire: Wire, reduction: Reduction) -> None:
        self.buckets = 0  # of the last step
        self.wire = wire
        self._reduction = reduction
        self._link = TorchLink(ranks)
        self._exposed: Exposed = CudaExposed(device) if device.type == "cuda" else HostExposed()

    @property
    def exposed_seconds(self) -> float:
        """Seconds since this was made in which the device only communicated, or waited for slower ranks.

        Counted from the moment the last bucket of a step is ready to the end of the backward pass. Per rank; reading it
        waits for a GPU.
        """
        return self._exposed.seconds

    def attach(self, replica: DistributedDataParallel) -> None:
        """From now on average the gradients of this replica."""
        replica.register_comm_hook(self, Communication.average)

    def average(self, bucket: GradBucket) -> Future[torch.Tensor]:
        """Start to average a bucket, whose gradients are all there; the other layers' are still being computed."""
        self._exposed.begin()
        self.buckets = max(self.buckets * (bucket.index() > 0), bucket.index() + 1)
        average: Future[torch.Tensor] = self.wire.reduce(
            bucket.buffer(), self._link, self._reduction, self._link.ranks
        )
        return average

    def sum(self, vector: torch.Tensor) -> torch.Tensor:
        """The sum of a vector over the ranks, on the path that gradients take; it may be written over. Collective."""
        total: torch.Tensor = self.wire.reduce(vector, self._link, self._reduction, 1).wait()
        return total

    def end_backward(self) -> None:
        """To be called when a backward pass has returned."""
        self._exposed.end()


def communication_of(settings: Mapping[str, Any], group: Group, device: torch.device) -> Communication:
    """The averaging of gradients that a case's settings ask for."""
    wire, reduction = WIRES[settings["WIRE"]], REDUCTIONS[settings["ALLREDUCE"]]
    return Communication(group.degree, device, wire(), reduction())
