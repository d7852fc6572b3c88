"""torch's profiler: records every operator, and sums their seconds by class."""

import os
from collections.abc import Iterable
from contextlib import AbstractContextManager
from typing import Any

import torch

from hpcai.train.operator_classes import CLASSES, OTHER, operator_class

SILENCE = "99"  # above all levels of torch's profiling library, which otherwise prints to stderr


def profiler(device: torch.device) -> AbstractContextManager[Any]:
    """A context manager that records every operator on device and host."""
    os.environ.setdefault("KINETO_LOG_LEVEL", SILENCE)
    from torch.autograd.profiler import profile  # torch.profiler loads torch's compiler, 2 s of processor time

    on_device = device.type if device.type == "cuda" else None
    found: AbstractContextManager[Any] = profile(use_kineto=True, use_device=on_device, acc_events=True)
    return found


def by_class(events: Iterable[Any], device: torch.device) -> dict[str, float]:
    """Seconds of the operators by class, each without the operators that it calls.

    `events` are the profiler's averages by name; kernels are left out, since their operators include their time.
    """
    seconds = dict.fromkeys(CLASSES, 0.0)
    for event in events:
        if event.device_type == torch.autograd.DeviceType.CPU:
            own = event.self_device_time_total if device.type == "cuda" else event.self_cpu_time_total
            seconds[operator_class(event.key) or OTHER] += own * 1e-6
    return seconds
