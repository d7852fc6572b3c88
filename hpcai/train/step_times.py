"""Seconds of the optimiser steps of the timed region, and busy seconds of each rank, without synchronising.

A rank records a timestamp after each step, in memory allocated before; they are evaluated between epochs.
"""

from array import array
from typing import Protocol

import numpy as np
import torch
from mpi4py import MPI

from hpcai.clock import now
from hpcai.record.training import BusySeconds, StepSeconds
from hpcai.train.state import Progress

Seconds = np.ndarray[tuple[int], np.dtype[np.float64]]


class Timestamps(Protocol):
    """Timestamps of the device in slots 0, 1, 2 ..., recorded without synchronising. One class per device type."""

    def note(self, place: int) -> None:
        """Record the time when the device has done all work submitted so far."""

    def intervals(self, count: int) -> Seconds:
        """float64[count - 1]: seconds between the first `count` timestamps; the device must have passed the last."""


class HostTimestamps:
    """Timestamps on a CPU: readings of the clock."""

    def __init__(self, places: int) -> None:
        self._times = array("d", bytes(8 * places))

    def note(self, place: int) -> None:
        """Reads the clock."""
        self._times[place] = now()

    def intervals(self, count: int) -> Seconds:
        """Differences of clock readings."""
        return np.diff(self._times[:count])


class CudaTimestamps:
    """Timestamps on a GPU: CUDA events in the current stream."""

    def __init__(self, device: torch.device, places: int) -> None:
        self._device = device
        self._events = [torch.cuda.Event(enable_timing=True) for _ in range(places)]
        for place in range(places):
            self.note(place)  # the driver creates an event when it is first recorded: not in a step

    def note(self, place: int) -> None:
        """Records the event in the stream."""
        self._events[place].record(torch.cuda.current_stream(self._device))

    def intervals(self, count: int) -> Seconds:
        """Differences of the events' times; the resolution is about half a microsecond."""
        pairs = zip(self._events[: count - 1], self._events[1:count], strict=True)
        return np.array([earlier.elapsed_time(later) * 1e-3 for earlier, later in pairs], np.float64)


def timestamps(device: torch.device, places: int) -> Timestamps:
    """The timestamps of a device."""
    return CudaTimestamps(device, places) if device.type == "cuda" else HostTimestamps(places)


class StepTimes:
    """Seconds of this rank's optimiser steps.

    A step lasts from the end of the step before, the first one from the beginning of the epoch: waiting for data and
    for other ranks is part of it, validation is not.
    """

    def __init__(self, device: torch.device, most: int) -> None:
        """`most`: the number of steps of an epoch."""
        self._marks = timestamps(device, most + 1)
        self._noted = 0
        self._epochs: list[Seconds] = []
        self.parts = 0  # of epochs, each measured for itself

    def begin(self) -> None:
        """An epoch begins."""
        self._noted = 0
        self.mark()

    def mark(self) -> None:
        """A step was submitted to the device."""
        self._marks.note(self._noted)
        self._noted += 1

    def close(self) -> None:
        """The epoch has ended, and the device is done."""
        self._epochs.append(self._marks.intervals(self._noted))
        self.parts += 1

    @property
    def seconds(self) -> Seconds:
        """float64[steps]: of all steps so far, in their order."""
        return np.concatenate([np.empty(0), *self._epochs])

    def restore(self, seconds: Seconds, parts: int) -> None:
        """Put the steps of a checkpoint, measured in so many parts, before all others."""
        self._epochs[:0] = [seconds]
        self.parts += parts

    def statistics(self) -> StepSeconds:
        """Statistics of this rank's steps, of which there must be at least one.

        The percentile is the smallest time that 95 % of the steps do not exceed.
        """
        seconds = np.sort(self.seconds)
        count = len(seconds)
        return StepSeconds(
            count=count,
            mean=float(seconds.mean()),
            median=float(np.median(seconds)),
            p95=float(seconds[(95 * count + 99) // 100 - 1]),
        )


def of_slowest(statistics: StepSeconds, comm: MPI.Comm) -> StepSeconds:
    """The statistics of the rank with the largest median, the same on every rank. Collective; constant size."""
    _, rank = comm.allreduce((statistics.median, comm.rank), MPI.MAXLOC)
    slowest: StepSeconds = comm.bcast(statistics, rank)
    return slowest


def busy_seconds(progress: Progress) -> float:
    """Seconds of a rank's timed region in which it waited neither for data nor for other ranks."""
    return progress.training_seconds - progress.data_wait_seconds - progress.exposed_seconds


def spread(seconds: float, host: str, comm: MPI.Comm) -> BusySeconds:
    """Minimum, mean and maximum of the ranks' times, the slowest rank and its host; the same on every rank.

    The lowest of ranks with equal times. Collective; constant size.
    """
    most, rank = comm.allreduce((seconds, comm.rank), MPI.MAXLOC)
    return BusySeconds(
        min=comm.allreduce(seconds, MPI.MIN),
        mean=mean(seconds, comm),
        max=most,
        slowest_rank=comm.bcast(MPI.COMM_WORLD.rank, rank),
        slowest_host=comm.bcast(host, rank),
    )


def mean(seconds: float, comm: MPI.Comm) -> float:
    """Mean over the ranks, the same on every rank. Collective."""
    total: float = comm.allreduce(seconds)
    return total / comm.size
