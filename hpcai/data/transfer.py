"""Transfer of batches from the loading thread to the device, and the time the device waits for them."""

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import torch

from hpcai.clock import now
from hpcai.data.philox import Integers
from hpcai.data.random_crops import Boxes

_BUFFERS = 2
_LEAD = 3  # batches that the caller may take before the device has reached the first of them

Shape = tuple[int, ...]
Samples = npt.NDArray[Any]  # images or fields [n, ...] of any type
Labels = npt.NDArray[Any]  # labels or boxes of the samples, [n, ...]


@dataclass(frozen=True, eq=False)
class DeviceBatch:
    """A batch in transfer: samples [n, ...] and labels [n, ...] are on the device after the event `copied`.

    indices, int64[n], by which the samples were read, stay on the host. boxes, int32[n, 5]: crops still to be made on
    the device.
    """

    images: torch.Tensor
    labels: torch.Tensor
    indices: Integers
    boxes: torch.Tensor | None = None
    copied: "torch.cuda.Event | None" = None


class Transfer(Protocol):
    """Transfer to one kind of device."""

    @property
    def wait_seconds(self) -> float:
        """Seconds the device has waited for data so far."""

    def stage(self, images: Samples, labels: Labels, indices: Integers) -> DeviceBatch:
        """Start the transfer of a batch; this and the next two methods are called by the loading thread."""

    def fill(
        self,
        shape: Shape,
        write: Callable[[Samples], None],
        labels: Labels,
        indices: Integers,
        boxes: Boxes | None,
        kind: npt.DTypeLike = np.uint8,
    ) -> DeviceBatch:
        """Start the transfer of a batch that `write` writes into memory of that shape and type, with its boxes."""

    def make(self, maker: Callable[[Integers], torch.Tensor], labels: Labels, indices: Integers) -> DeviceBatch:
        """Start a batch whose images are generated on the device, from their indices."""

    def receive(self, batches: Iterator[DeviceBatch]) -> DeviceBatch | None:
        """The next batch, ready for the work that the caller submits from now on; None at the end."""


def transfer_to(device: torch.device, batch: int) -> Transfer:
    """Transfer to that device for batches of at most `batch` samples, all of one shape and type."""
    return CudaTransfer(device, batch) if device.type == "cuda" else HostTransfer()


class HostTransfer:
    """Transfer to the CPU: the arrays stay in place, and the caller waits."""

    def __init__(self) -> None:
        self.wait_seconds = 0.0

    def stage(self, images: Samples, labels: Labels, indices: Integers) -> DeviceBatch:
        """Tensors that share the memory of the arrays."""
        return DeviceBatch(torch.from_numpy(images), torch.from_numpy(labels), indices)

    def fill(
        self,
        shape: Shape,
        write: Callable[[Samples], None],
        labels: Labels,
        indices: Integers,
        boxes: Boxes | None,
        kind: npt.DTypeLike = np.uint8,
    ) -> DeviceBatch:
        """Tensors on newly written memory."""
        assert boxes is None, "crops on the host are made before"
        images = np.empty(shape, kind)
        write(images)
        return self.stage(images, labels, indices)

    def make(self, maker: Callable[[Integers], torch.Tensor], labels: Labels, indices: Integers) -> DeviceBatch:
        """The output of the maker."""
        return DeviceBatch(maker(indices), torch.from_numpy(labels), indices)

    def receive(self, batches: Iterator[DeviceBatch]) -> DeviceBatch | None:
        """The next batch; None at the end."""
        asked = now()
        staged = next(batches, None)
        self.wait_seconds += now() - asked
        return staged


@dataclass(eq=False)
class _Buffer:
    images: torch.Tensor
    labels: torch.Tensor
    boxes: torch.Tensor
    copied: torch.cuda.Event | None = None


def _timed_event() -> torch.cuda.Event:
    """Event with a device time stamp; a host thread that waits for it sleeps and leaves the processor to the loader."""
    return torch.cuda.Event(enable_timing=True, blocking=True)


class CudaTransfer:
    """Transfer through page-locked buffers on a stream of its own, so that copies overlap the caller's stream.

    The caller may be some batches ahead of the device, so that the device need not wait for it. The lead is limited:
    otherwise waiting batches could fill the device's memory. Waiting is measured on the device, from the end of the
    work that was submitted before the request to the arrival of the batch.
    """

    def __init__(self, device: torch.device, batch: int) -> None:
        self._device = device
        self._batch = batch
        self._stream = torch.cuda.Stream(device)
        self._buffers: list[_Buffer] = []
        self._seconds = 0.0
        self._waits: deque[tuple[torch.cuda.Event, torch.cuda.Event]] = deque()

    @property
    def wait_seconds(self) -> float:
        """Seconds the device has waited for data so far; waits for the device, so read it outside the clock."""
        if self._waits:
            self._waits[-1][1].synchronize()
        self._add_finished()
        return self._seconds

    def stage(self, images: Samples, labels: Labels, indices: Integers) -> DeviceBatch:
        """Fill the next buffer after its last copy has finished, and start the copy."""
        # NumPy's copy: torch's would start a second thread pool from this thread
        return self.fill(images.shape, lambda out: np.copyto(out, images), labels, indices, None, images.dtype)

    def fill(
        self,
        shape: Shape,
        write: Callable[[Samples], None],
        labels: Labels,
        indices: Integers,
        boxes: Boxes | None,
        kind: npt.DTypeLike = np.uint8,
    ) -> DeviceBatch:
        """Have `write` fill the next buffer after its last copy has finished, and start the copy."""
        # a thread starts on device 0: returning to it from the stream would create a context there for every rank
        with torch.cuda.device(self._device):
            buffer, n = self._free_buffer(np.empty((0, *shape[1:]), kind), labels), len(labels)
            write(buffer.images.numpy()[:n])
            np.copyto(buffer.labels.numpy()[:n], labels)
            np.copyto(buffer.boxes.numpy()[:n], 0 if boxes is None else boxes)
            with torch.cuda.stream(self._stream):
                images, device_labels, device_boxes = (
                    part[:n].to(self._device, non_blocking=True)
                    for part in (buffer.images, buffer.labels, buffer.boxes)
                )
            buffer.copied = self._stream.record_event()
        return DeviceBatch(images, device_labels, indices, None if boxes is None else device_boxes, buffer.copied)

    def make(self, maker: Callable[[Integers], torch.Tensor], labels: Labels, indices: Integers) -> DeviceBatch:
        """Run the maker on the copying stream, while the caller's stream trains."""
        with torch.cuda.device(self._device), torch.cuda.stream(self._stream):
            images = maker(indices)
        staged = self.fill((len(labels), 0), lambda out: None, labels, indices, None)
        return replace(staged, images=images)

    def receive(self, batches: Iterator[DeviceBatch]) -> DeviceBatch | None:
        """The next batch, for work on the caller's current stream; None at the end."""
        stream = torch.cuda.current_stream(self._device)
        asked = stream.record_event(_timed_event())
        staged = next(batches, None)
        if staged is not None and staged.copied is not None:
            stream.wait_event(staged.copied)
            # the copying stream owns the memory and must not reuse it before this stream has finished with it
            for tensor in [staged.images, staged.labels] + ([] if staged.boxes is None else [staged.boxes]):
                tensor.record_stream(stream)
        self._waits.append((asked, stream.record_event(_timed_event())))
        self._add_finished()
        if len(self._waits) > _LEAD:
            self._waits[-1 - _LEAD][1].synchronize()
        return staged

    def _free_buffer(self, images: Samples, labels: Labels) -> _Buffer:
        if len(self._buffers) < _BUFFERS:
            self._buffers.append(self._new_buffer(images, labels))
        else:
            self._buffers.append(self._buffers.pop(0))
        buffer = self._buffers[-1]
        if buffer.copied is not None:
            buffer.copied.synchronize()
        return buffer

    def _new_buffer(self, images: Samples, labels: Labels) -> _Buffer:
        """Page-locked buffer for a batch of samples like these."""
        pixels, labelled = (
            torch.from_numpy(np.empty((self._batch, *like.shape[1:]), like.dtype)).pin_memory()
            for like in (images, labels)
        )
        return _Buffer(pixels, labelled, torch.empty((self._batch, 5), dtype=torch.int32, pin_memory=True))

    def _add_finished(self) -> None:
        while self._waits and self._waits[0][1].query():
            asked, there = self._waits.popleft()
            self._seconds += asked.elapsed_time(there) * 1e-3
