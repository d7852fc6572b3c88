"""How long the optimiser steps of the timed region took, and how long each rank was busy, without waiting for a device.

A rank notes a time after each step, in memory that is there before; what the times say is worked out between epochs.
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


class Marks(Protocol):
    """Moments of the device, noted in places 0, 1, 2 ... by one who does not wait for it; one for each kind."""

    def note(self, place: int) -> None:
        """The moment when the device has done all it was given before."""

    def gaps(self, count: int) -> Seconds:
        """float64[count - 1]: seconds between the first `count` moments; the device must have come past the last."""


class HostMarks:
    """The device is the CPU: what it was given is done."""

    def __init__(self, places: int) -> None:
        self._times = array("d", bytes(8 * places))

    def note(self, place: int) -> None:
        """Reads the clock."""
        self._times[place] = now()

    def gaps(self, count: int) -> Seconds:
        """Differences of clock readings."""
        return np.diff(self._times[:count])


class CudaMarks:
    """Events that the device times when it comes to them in the stream of the caller."""

    def __init__(self, device: torch.device, places: int) -> None:
        self._device = device
        self._events = [torch.cuda.Event(enable_timing=True) for _ in range(places)]
        for place in range(places):
            self.note(place)  # the driver makes an event when it is first recorded: not during a step

    def note(self, place: int) -> None:
        """Puts the event into the stream."""
        self._events[place].record(torch.cuda.current_stream(self._device))

    def gaps(self, count: int) -> Seconds:
        """Differences of the device's times, which it has in steps of about half a microsecond."""
        pairs = zip(self._events[: count - 1], self._events[1:count], strict=True)
        return np.array([earlier.elapsed_time(later) * 1e-3 for earlier, later in pairs], np.float64)


class StepTimes:
    """Seconds of this rank's optimiser steps.

    A step lasts from the end of the one before, the first of an epoch from the epoch's begin: so waiting for data and
    for other ranks is part of it, a validation is not, and all steps together are no longer than the training.
    """

    def __init__(self, device: torch.device, most: int) -> None:
        """`most` steps an epoch."""
        self._marks: Marks = CudaMarks(device, most + 1) if device.type == "cuda" else HostMarks(most + 1)
        self._noted = 0
        self._epochs: list[Seconds] = []

    def begin(self) -> None:
        """An epoch begins."""
        self._noted = 0
        self.mark()

    def mark(self) -> None:
        """A step has been given to the device."""
        self._marks.note(self._noted)
        self._noted += 1

    def close(self) -> None:
        """The epoch has ended, and the device has done all of it."""
        self._epochs.append(self._marks.gaps(self._noted))

    def statistics(self) -> StepSeconds:
        """Statistics of this rank's steps, of which there must be one.

        The percentile is the least time that 95 % of the steps did not exceed.
        """
        seconds = np.sort(np.concatenate(self._epochs))
        count = len(seconds)
        return StepSeconds(
            count=count,
            mean=float(seconds.mean()),
            median=float(np.median(seconds)),
            p95=float(seconds[(95 * count + 99) // 100 - 1]),
        )


def of_slowest(statistics: StepSeconds, comm: MPI.Comm) -> StepSeconds:
    """The statistics of the rank with the largest median, the same on every rank. Collective; of constant size."""
    _, rank = comm.allreduce((statistics.median, comm.rank), MPI.MAXLOC)
    slowest: StepSeconds = comm.bcast(statistics, rank)
    return slowest


def busy_seconds(progress: Progress) -> float:
    """Seconds of a rank's timed region in which it waited neither for data nor for other ranks."""
    return progress.training_seconds - progress.data_wait_seconds - progress.exposed_seconds


def spread(seconds: float, host: str, comm: MPI.Comm) -> BusySeconds:
    """Least, mean and most of a time of the ranks, which rank has the most, and its host; the same on every rank.

    Of ranks with the same time the first. Collective; of constant size.
    """
    most, rank = comm.allreduce((seconds, comm.rank), MPI.MAXLOC)
    return BusySeconds(
        min=comm.allreduce(seconds, MPI.MIN),
        mean=mean(seconds, comm),
        max=most,
        slowest_rank=rank,
        slowest_host=comm.bcast(host, rank),
    )


def mean(seconds: float, comm: MPI.Comm) -> float:
    """Mean over the ranks, the same on every rank. Collective."""
    total: float = comm.allreduce(seconds)
    return total / comm.size
