"""Sums of gradients beside the backward pass, one after the other: in a thread on CPUs, on a stream of a GPU."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

import torch
from torch.futures import Future

Work = Callable[[torch.Tensor], None]  # sums a vector in place


class GradientQueue(Protocol):
    """Runs sums in the order in which they are submitted, which is the same on all ranks of a group."""

    def submit(self, vector: torch.Tensor, work: Work) -> Future[torch.Tensor]:
        """Run `work` on a vector when the device has computed it; the future's value is the vector."""

    def check(self) -> None:
        """Raise the exception of a sum that failed; its future was completed."""


class HostQueue:
    """A thread that sums vectors in host memory. It ends when nothing refers to the queue any more."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, "hpcai-gradients")
        self._failed: list[BaseException] = []

    def submit(self, vector: torch.Tensor, work: Work) -> Future[torch.Tensor]:
        """The thread waits for no one else; DDP waits for the future without the interpreter's lock."""
        future: Future[torch.Tensor] = Future()
        self._thread.submit(_complete, future, vector, work, self._failed)
        return future

    def check(self) -> None:
        if self._failed:
            raise self._failed[0]


def _complete(future: Future[torch.Tensor], vector: torch.Tensor, work: Work, failed: list[BaseException]) -> None:
    try:
        with torch.no_grad():
            work(vector)
    except BaseException as error:  # noqa: BLE001 - raised again by the thread that waits for the future
        failed.append(error)
    future.set_result(vector)


class StagedQueue(HostQueue):
    """Vectors of a GPU whose ranks are connected through host memory: they are copied there and back."""

    def __init__(self, device: torch.device) -> None:
        super().__init__()
        self._stream = torch.cuda.Stream(device)
        self._host = torch.empty(0, pin_memory=True)

    def submit(self, vector: torch.Tensor, work: Work) -> Future[torch.Tensor]:
        """The thread waits until the GPU has computed the vector."""
        computed = torch.cuda.Event()
        computed.record(torch.cuda.current_stream(vector.device))

        def staged(vector: torch.Tensor) -> None:
            with torch.cuda.stream(self._stream):
                self._stream.wait_event(computed)
                host = self._pinned(vector)
                host.copy_(vector, non_blocking=True)
                self._stream.synchronize()
                work(host)
                vector.copy_(host, non_blocking=True)
                self._stream.synchronize()

        return super().submit(vector, staged)

    def _pinned(self, vector: torch.Tensor) -> torch.Tensor:
        if self._host.nbytes < vector.nbytes:
            self._host = torch.empty(vector.nbytes, dtype=torch.uint8, pin_memory=True)
        return self._host[: vector.nbytes].view(vector.dtype)


class CudaQueue:
    """A stream of the GPU beside the one that computes; the host never waits."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._stream = torch.cuda.Stream(device)

    def submit(self, vector: torch.Tensor, work: Work) -> Future[torch.Tensor]:
        """The future's value is ready for whatever is submitted to a stream that waits for it."""
        self._stream.wait_stream(torch.cuda.current_stream(self._device))
        future: Future[torch.Tensor] = Future(devices=[self._device])
        with torch.cuda.stream(self._stream), torch.no_grad():
            work(vector)
            future.set_result(vector)
        return future

    def check(self) -> None:
        """Exceptions are raised where the work is submitted."""


def gradient_queue(device: torch.device, on_host: bool) -> GradientQueue:
    """The queue for gradients of a device, whose ranks are connected through host memory or directly."""
    if device.type != "cuda":
        return HostQueue()
    return StagedQueue(device) if on_host else CudaQueue(device)
