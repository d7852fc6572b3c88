"""Times of kernels on a GPU with cold L2: the cache is overwritten before each launch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from statistics import median
from typing import TYPE_CHECKING, TypeVar

from .launch import Launch, ready

if TYPE_CHECKING:
    import torch

    from .gpu import Gpu

TIMES, TRIALS = 7, 2  # launches of a promising candidate, and of others
SLOWER = 1.3  # a candidate is promising within this factor of the fastest so far

T = TypeVar("T")


def seconds(candidates: Mapping[T, Sequence[Launch]], device: torch.device, gpu: Gpu) -> dict[T, float]:
    """Median time of each candidate on the current stream; waits until all are done."""
    import torch

    other = torch.empty(2 * gpu.cache, dtype=torch.uint8, device=device)
    found: dict[T, float] = {}
    with torch.cuda.device(device):  # events are recorded on this device
        for candidate, launches in candidates.items():
            runs = [ready(launch, device) for launch in launches]
            _once(runs, other)  # warm-up
            times = [_once(runs, other) for _ in range(TRIALS)]
            if min(times) < SLOWER * min(found.values(), default=min(times)):
                times += [_once(runs, other) for _ in range(TIMES - TRIALS)]
            found[candidate] = median(times)
    return found


def _once(runs: Sequence[Callable[[], None]], other: torch.Tensor) -> float:
    import torch

    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    other.zero_()  # takes longer than enqueuing the launches
    begin.record()
    for run in runs:
        run()
    end.record()
    end.synchronize()
    return float(begin.elapsed_time(end)) / 1000
