"""Compares providers' times of a call, in alternating blocks: their thread pools would disturb each other.

A block is a pause in which the other providers' pools go to sleep, a call that does not count, then calls for a while.
A single long call counts and is the whole block.

On a GPU calls are timed one by one, by events, each after its caches were overwritten: operands come from memory, and
launching takes no time, since the GPU is still busy overwriting.
"""

from collections.abc import Callable, Mapping
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


def seconds(
    calls: Mapping[str, Call], comm: MPI.Comm, device: torch.device, least: float = LEAST, rounds: int = ROUNDS
) -> dict[str, float]:
    """Seconds of each call by name: medians over the rounds, of the slowest rank.

    All ranks make the same calls at the same time. Collective, the same on every rank.
    """
    taken: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            sleep(PAUSE)
            comm.Barrier()
            taken[name].append(block(call, device, least))
    return reductions.largest(comm, {name: median(times) for name, times in taken.items()})


def block(call: Call, device: torch.device, least: float) -> float:
    """Mean seconds of a call over `least` seconds, or of one call, after a first one that counts only if it is long.

    On a GPU the median of the calls' own times.
    """
    first = _elapsed(call, 1, device)
    if first >= LONG:
        return first
    if device.type == "cuda":
        return _on_gpu(call, device, int(min(MOST, max(FEWEST, least / first))))
    calls, elapsed, more = 0, 0.0, 1
    while calls == 0 or elapsed < least:
        elapsed += _elapsed(call, more, device)
        calls += more
        more = calls
    return elapsed / calls


def _on_gpu(call: Call, device: torch.device, times: int) -> float:
    other = torch.empty(devices.cache_bytes(device), dtype=torch.uint8, device=device)
    moments = [[torch.cuda.Event(enable_timing=True) for _ in range(2)] for _ in range(times)]
    for begin, end in moments:
        other.zero_()
        begin.record(torch.cuda.current_stream(device))
        call()
        end.record(torch.cuda.current_stream(device))
    clock.synchronise(device)
    return median(begin.elapsed_time(end) for begin, end in moments) * 1e-3


def _elapsed(call: Call, times: int, device: torch.device) -> float:
    """Seconds of several calls, until the device is done."""
    clock.synchronise(device)
    begin = clock.now()
    for _ in range(times):
        call()
    clock.synchronise(device)
    return clock.now() - begin
