"""The clock of the program: every reported second comes from here."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from time import CLOCK_BOOTTIME, clock_gettime, perf_counter, process_time
from typing import TYPE_CHECKING

from hpcai.watch import activity

if TYPE_CHECKING:
    import torch


def now() -> float:
    """Seconds of a monotonic clock with an arbitrary origin; only differences on one rank are meaningful."""
    return perf_counter()


def processor_seconds() -> float:
    """Processor time of all threads of this process so far."""
    return process_time()


def since_process_start() -> float:
    """Seconds since the operating system created this process, to its clock tick (0.01 s)."""
    start_ticks = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
    return clock_gettime(CLOCK_BOOTTIME) - start_ticks / os.sysconf("SC_CLK_TCK")


def utc() -> datetime:
    """The date and time in UTC, to the second."""
    return utc_instant().replace(microsecond=0)


def utc_instant() -> datetime:
    """The date and time in UTC, to the microsecond."""
    return datetime.now(UTC)


def synchronise(device: "torch.device") -> None:
    """Wait until the device has finished its work; returns at once on a CPU."""
    if device.type == "cuda":
        import torch

        torch.cuda.synchronize(device)


class Phases:
    """Seconds of this rank by phase; the device is synchronised at the beginning and end of a phase."""

    def __init__(self, device: "torch.device") -> None:
        self.device = device
        self.seconds: dict[str, float] = {}
        self.between = 0.0  # seconds between two phases
        self._ended: float | None = None

    @contextmanager
    def measure(self, phase: str) -> Iterator[None]:
        """Add the time spent inside the block to `phase`."""
        with activity.phase(phase):
            synchronise(self.device)
            begin = now()
            self.between += 0.0 if self._ended is None else begin - self._ended
            yield
            synchronise(self.device)
            self._ended = now()
        self.seconds[phase] = self.seconds.get(phase, 0.0) + self._ended - begin
