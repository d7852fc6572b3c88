"""Compares providers' times of a call, in alternating blocks: their thread pools would disturb each other.

A block is a pause in which the other providers' pools go to sleep, a call that does not count, then calls for a while,
in stretches between which the clock is stopped. A single long call counts and is the whole block.

Calls take turns with their sets of operands. How many calls a stretch has and which set is the last one is drawn from
the system's entropy, so nothing can know in advance whose result is looked at. Before each stretch elements of the
result are poisoned, after it they are checked.

On a GPU calls are timed one by one, by events, each after its caches were overwritten: operands come from memory, and
launching takes no time, since the GPU is still busy overwriting.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from secrets import randbelow
from statistics import median
from time import sleep
from typing import Any

import torch
from mpi4py import MPI

from hpcai import clock
from hpcai.comm import reductions
from hpcai.machine import device as devices

Call = Callable[[], Any]

PAUSE = 0.01  # seconds
LEAST = 0.02  # seconds of calls in a block
LONG = 0.1  # a call longer than these seconds hides the wake-up of a thread pool
ROUNDS = 3
FEWEST, MOST = 5, 200  # calls in a block on a GPU


def _nothing(*_: Any) -> None:
    """Nothing is checked."""


@dataclass(frozen=True)
class Rotation:
    """The calls of a provider, one for each set of operands, all with the same result; each is made in turn.

    begin: at the begin of a block. poison: before, check: after each stretch of calls, with the set of the last call.
    """

    calls: tuple[Call, ...]
    begin: Callable[[], Any] = _nothing
    poison: Callable[[], Any] = _nothing
    check: Callable[[int], Any] = _nothing

    def drawn(self, times: int) -> tuple[list[Call], int]:
        """So many calls, and the set of the last one, which is drawn."""
        sets = len(self.calls)
        last = randbelow(sets)
        return [self.calls[(last - back) % sets] for back in reversed(range(times))], last


def seconds(
    rotations: Mapping[str, Rotation], comm: MPI.Comm, device: torch.device, least: float = LEAST, rounds: int = ROUNDS
) -> dict[str, float]:
    """Seconds of each call by name: medians over the rounds, of the slowest rank.

    All ranks make the same calls at the same time. Collective, the same on every rank.
    """
    taken: dict[str, list[float]] = {name: [] for name in rotations}
    for _ in range(rounds):
        for name, rotation in rotations.items():
            rotation.begin()
            sleep(PAUSE)
            comm.Barrier()
            taken[name].append(block(rotation, device, least))
    return reductions.largest(comm, {name: median(times) for name, times in taken.items()})


def block(rotation: Rotation, device: torch.device, least: float) -> float:
    """Mean seconds of a call over `least` seconds, or of one call, after a first one that counts only if it is long.

    On a GPU the median of the calls' own times.
    """
    first = stretch(rotation, 1, device)
    if first >= LONG:
        return first
    if device.type == "cuda":
        return _on_gpu(rotation, device, int(min(MOST, max(FEWEST, least / first))))
    calls, elapsed, more = 0, 0.0, 1
    while calls == 0 or elapsed < least:
        elapsed += stretch(rotation, more, device)
        calls += more
        more = calls - calls // 4 + randbelow(calls // 2 + 1)
    return elapsed / calls


def _on_gpu(rotation: Rotation, device: torch.device, times: int) -> float:
    other = torch.empty(devices.cache_bytes(device), dtype=torch.uint8, device=device)
    taken = [each for some in _parts(times) for each in _by_events(rotation, device, some, other)]
    return median(taken) * 1e-3


def _parts(times: int) -> Iterator[int]:
    """Numbers of calls of a few stretches, drawn, with this sum."""
    while times > 0:
        part = min(times, 1 + randbelow(max(FEWEST, times)))
        times -= part
        yield part


def _by_events(rotation: Rotation, device: torch.device, times: int, other: torch.Tensor) -> list[float]:
    """Milliseconds of each call of a stretch, by events; `other` is overwritten before each."""
    calls, last = rotation.drawn(times)
    rotation.poison()
    moments = [[torch.cuda.Event(enable_timing=True) for _ in range(2)] for _ in calls]
    for call, (begin, end) in zip(calls, moments, strict=True):
        other.zero_()
        begin.record(torch.cuda.current_stream(device))
        call()
        end.record(torch.cuda.current_stream(device))
    clock.synchronise(device)
    rotation.check(last)
    return [begin.elapsed_time(end) for begin, end in moments]


def stretch(rotation: Rotation, times: int, device: torch.device) -> float:
    """Seconds of several calls, until the device is done."""
    calls, last = rotation.drawn(times)
    rotation.poison()
    clock.synchronise(device)
    begin = clock.now()
    for call in calls:
        call()
    clock.synchronise(device)
    elapsed = clock.now() - begin
    rotation.check(last)
    return elapsed
