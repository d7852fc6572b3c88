"""Timers of intervals of a device that recur: exposed communication, packing of gradients."""

from collections import deque
from typing import Protocol

import torch

from hpcai.clock import now


class IntervalTimer(Protocol):
    """Sum of the times between two moments of the device, without synchronising. One class per device type."""

    @property
    def seconds(self) -> float:
        """Seconds of all intervals so far. Waits for a GPU."""

    def begin(self) -> None:
        """An interval begins; the last call before an end counts."""

    def end(self) -> None:
        """The interval ends; nothing is added if none has begun."""


class HostIntervalTimer:
    """Intervals on a CPU, by readings of the clock."""

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


class CudaIntervalTimer:
    """Intervals on a GPU, by CUDA events in the current stream.

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
        """Seconds of all intervals so far. Waits for the device, so read it outside the clock."""
        if self._pairs:
            self._pairs[-1][1].synchronize()
        self._add_finished()
        return self._seconds

    def begin(self) -> None:
        """Records an event."""
        self._begin = self._begin or self._event()
        self._begin.record(torch.cuda.current_stream(self._device))

    def end(self) -> None:
        """Records an event."""
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


def interval_timer(device: torch.device) -> IntervalTimer:
    """The timer of a device."""
    return CudaIntervalTimer(device) if device.type == "cuda" else HostIntervalTimer()
