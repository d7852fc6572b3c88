"""Gradients averaged over a group bucket by bucket while the backward pass runs, and what of that it could not hide."""

from collections import deque
from typing import Protocol

import torch
from torch.distributed import GradBucket, all_reduce
from torch.futures import Future
from torch.nn.parallel import DistributedDataParallel

from hpcai.clock import now


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

    With `degree` 1 there is nothing to do. `wire` is the type in which gradients are divided, sent and summed, whatever
    they are computed in.
    """

    def __init__(self, degree: int, device: torch.device, wire: torch.dtype = torch.float32) -> None:
        self.buckets = 0  # of the last step
        self._degree = degree
        self._wire = wire
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
        gradients = bucket.buffer()
        sent = gradients.to(self._wire)  # the same memory where the types are
        sent.div_(self._degree)  # before they are summed: no sum overflows that the average would not
        work = all_reduce(sent, async_op=True)
        return work.get_future().then(lambda done: _received(gradients, done.value()[0]))

    def end_backward(self) -> None:
        """To be called when a backward pass has returned."""
        self._exposed.end()


def _received(gradients: torch.Tensor, average: torch.Tensor) -> torch.Tensor:
    return average if average.dtype == gradients.dtype else gradients.copy_(average)
