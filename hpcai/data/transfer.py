"""The way of a batch from the loading thread to the device, and how long the device waited for it."""

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

_SLOTS = 2
_LEAD = 3  # batches that the caller may have taken before the device comes to the first of them

Shape = tuple[int, ...]
Samples = npt.NDArray[Any]  # images or fields [n, ...] of any type
Labels = npt.NDArray[Any]  # what belongs to each of them, [n, ...]


@dataclass(frozen=True, eq=False)
class Staged:
    """A batch on its way: samples [n, ...] and their labels [n, ...] on the device once `copied` has happened.

    indices, int64[n], are those the images were read by; they stay on the host. boxes, int32[n, 5], are what is still
    to be cropped from the images there.
    """

    images: torch.Tensor
    labels: torch.Tensor
    indices: Integers
    boxes: torch.Tensor | None = None
    copied: "torch.cuda.Event | None" = None


class Transfer(Protocol):
    """One for each kind of device."""

    @property
    def wait_seconds(self) -> float:
        """Seconds the device has waited for data so far."""

    def stage(self, images: Samples, labels: Labels, indices: Integers) -> Staged:
        """Starts a batch on its way; this and the next two are called by the loading thread."""

    def fill(
        self,
        shape: Shape,
        write: Callable[[Samples], None],
        labels: Labels,
        indices: Integers,
        boxes: Boxes | None,
        kind: npt.DTypeLike = np.uint8,
    ) -> Staged:
        """Starts a batch that `write` puts into the memory it is given, of that shape and type; boxes go with it."""

    def make(self, maker: Callable[[Integers], torch.Tensor], labels: Labels, indices: Integers) -> Staged:
        """Starts a batch whose images are made on the device, from their indices."""

    def receive(self, batches: Iterator[Staged]) -> Staged | None:
        """The next batch, ready for the work that the caller gives the device from now on; None at the end."""


def transfer_to(device: torch.device, batch: int) -> Transfer:
    """The way to that device for batches of at most `batch` samples, all of one shape and type."""
    return CudaTransfer(device, batch) if device.type == "cuda" else HostTransfer()


class HostTransfer:
    """The device is the CPU: the arrays stay where they are, and who waits is the caller."""

    def __init__(self) -> None:
        self.wait_seconds = 0.0

    def stage(self, images: Samples, labels: Labels, indices: Integers) -> Staged:
        """Tensors on the same memory."""
        return Staged(torch.from_numpy(images), torch.from_numpy(labels), indices)

    def fill(
        self,
        shape: Shape,
        write: Callable[[Samples], None],
        labels: Labels,
        indices: Integers,
        boxes: Boxes | None,
        kind: npt.DTypeLike = np.uint8,
    ) -> Staged:
        """Tensors on memory that was written once."""
        assert boxes is None, "what is cropped on the host is cropped before"
        images = np.empty(shape, kind)
        write(images)
        return self.stage(images, labels, indices)

    def make(self, maker: Callable[[Integers], torch.Tensor], labels: Labels, indices: Integers) -> Staged:
        """What the maker gives."""
        return Staged(maker(indices), torch.from_numpy(labels), indices)

    def receive(self, batches: Iterator[Staged]) -> Staged | None:
        """The next batch; None at the end."""
        asked = now()
        staged = next(batches, None)
        self.wait_seconds += now() - asked
        return staged


@dataclass(eq=False)
class _Slot:
    images: torch.Tensor
    labels: torch.Tensor
    boxes: torch.Tensor
    copied: torch.cuda.Event | None = None


def _moment() -> torch.cuda.Event:
    """An event that the device times; who waits for it sleeps, and leaves the processor to the thread that loads."""
    return torch.cuda.Event(enable_timing=True, blocking=True)


class CudaTransfer:
    """Through page-locked slots and a stream of its own, so that copies overlap the work of the caller's stream.

    The device never waits for the caller, who may be some batches ahead of it. No more: where a step takes longer than
    launching it, the batches that wait for the device would fill its memory. Waiting is measured on the device: from
    the moment it has done all it was given before the batch was asked for, to the moment the batch is there.
    """

    def __init__(self, device: torch.device, batch: int) -> None:
        self._device = device
        self._batch = batch
        self._stream = torch.cuda.Stream(device)
        self._slots: list[_Slot] = []
        self._seconds = 0.0
        self._waits: deque[tuple[torch.cuda.Event, torch.cuda.Event]] = deque()

    @property
    def wait_seconds(self) -> float:
        """Seconds the device has waited for data so far; waits for the device, so read it outside the clock."""
        if self._waits:
            self._waits[-1][1].synchronize()
        self._add_finished()
        return self._seconds

    def stage(self, images: Samples, labels: Labels, indices: Integers) -> Staged:
        """Fills the next slot once its last copy is through, and starts the copy."""
        # NumPy's copy: one of torch's would start a second pool of threads from here
        return self.fill(images.shape, lambda out: np.copyto(out, images), labels, indices, None, images.dtype)

    def fill(
        self,
        shape: Shape,
        write: Callable[[Samples], None],
        labels: Labels,
        indices: Integers,
        boxes: Boxes | None,
        kind: npt.DTypeLike = np.uint8,
    ) -> Staged:
        """Has the next slot written once its last copy is through, and starts the copy."""
        # a thread begins on device 0: going back there from the stream would make a context on it, one of every rank
        with torch.cuda.device(self._device):
            slot, n = self._free_slot(np.empty((0, *shape[1:]), kind), labels), len(labels)
            write(slot.images.numpy()[:n])
            np.copyto(slot.labels.numpy()[:n], labels)
            np.copyto(slot.boxes.numpy()[:n], 0 if boxes is None else boxes)
            with torch.cuda.stream(self._stream):
                images, device_labels, device_boxes = (
                    part[:n].to(self._device, non_blocking=True) for part in (slot.images, slot.labels, slot.boxes)
                )
            slot.copied = self._stream.record_event()
        return Staged(images, device_labels, indices, None if boxes is None else device_boxes, slot.copied)

    def make(self, maker: Callable[[Integers], torch.Tensor], labels: Labels, indices: Integers) -> Staged:
        """Lets the maker work on the copying stream, while the caller's stream trains."""
        with torch.cuda.device(self._device), torch.cuda.stream(self._stream):
            images = maker(indices)
        staged = self.fill((len(labels), 0), lambda out: None, labels, indices, None)
        return replace(staged, images=images)

    def receive(self, batches: Iterator[Staged]) -> Staged | None:
        """The next batch, for work on the caller's current stream; None at the end."""
        stream = torch.cuda.current_stream(self._device)
        asked = stream.record_event(_moment())
        staged = next(batches, None)
        if staged is not None and staged.copied is not None:
            stream.wait_event(staged.copied)
            # their memory belongs to the copying stream, which must not reuse it before this one is done with it
            for tensor in [staged.images, staged.labels] + ([] if staged.boxes is None else [staged.boxes]):
                tensor.record_stream(stream)
        self._waits.append((asked, stream.record_event(_moment())))
        self._add_finished()
        if len(self._waits) > _LEAD:
            self._waits[-1 - _LEAD][1].synchronize()
        return staged

    def _free_slot(self, images: Samples, labels: Labels) -> _Slot:
        if len(self._slots) < _SLOTS:
            self._slots.append(self._new_slot(images, labels))
        else:
            self._slots.append(self._slots.pop(0))
        slot = self._slots[-1]
        if slot.copied is not None:
            slot.copied.synchronize()
        return slot

    def _new_slot(self, images: Samples, labels: Labels) -> _Slot:
        """Room for a batch of samples such as these."""
        pixels, labelled = (
            torch.from_numpy(np.empty((self._batch, *like.shape[1:]), like.dtype)).pin_memory()
            for like in (images, labels)
        )
        return _Slot(pixels, labelled, torch.empty((self._batch, 5), dtype=torch.int32, pin_memory=True))

    def _add_finished(self) -> None:
        while self._waits and self._waits[0][1].query():
            asked, there = self._waits.popleft()
            self._seconds += asked.elapsed_time(there) * 1e-3
