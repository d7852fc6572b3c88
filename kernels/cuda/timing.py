"""Seconds of kernels on a GPU where data come from memory: the L2 cache is filled with something else before."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from statistics import median
from typing import TYPE_CHECKING, TypeVar

from .launch import Launch, ready

if TYPE_CHECKING:
    import torch

    from .gpu import Gpu

TIMES, TRIALS = 7, 2  # launches of a way that may be the fastest, and of one that is not
SLOWER = 1.3  # times the fastest so far

T = TypeVar("T")


def seconds(candidates: Mapping[T, Sequence[Launch]], device: torch.device, gpu: Gpu) -> dict[T, float]:
    """Of each way on the current stream, the median of several times; it waits until they are done."""
    import torch

    other = torch.empty(2 * gpu.cache, dtype=torch.uint8, device=device)
    found: dict[T, float] = {}
    with torch.cuda.device(device):  # where events are recorded
        for candidate, launches in candidates.items():
            runs = [ready(launch, device) for launch in launches]
            _once(runs, other)  # the first time takes longer
            times = [_once(runs, other) for _ in range(TRIALS)]
            if min(times) < SLOWER * min(found.values(), default=min(times)):
                times += [_once(runs, other) for _ in range(TIMES - TRIALS)]
            found[candidate] = median(times)
    return found


def _once(runs: Sequence[Callable[[], None]], other: torch.Tensor) -> float:
    import torch

    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    other.zero_()  # which takes longer than it takes to launch what follows
    begin.record()
    for run in runs:
        run()
    end.record()
    end.synchronize()
    return float(begin.elapsed_time(end)) / 1000
