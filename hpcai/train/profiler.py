"""torch's profiler: every operator of a stretch of work, and its seconds by class of operation."""

import os
from collections.abc import Iterable
from contextlib import AbstractContextManager
from typing import Any

import torch

from hpcai.train.operator_classes import CLASSES, OTHER, operator_class

SILENCE = "99"  # above every level of torch's profiling library, which else tells on stderr when it begins and ends


def profiler(device: torch.device) -> AbstractContextManager[Any]:
    """A context that records every operator on the device and on the host."""
    os.environ.setdefault("KINETO_LOG_LEVEL", SILENCE)
    from torch.profiler import ProfilerActivity, profile

    kinds = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if device.type == "cuda" else [])]
    return profile(activities=kinds, acc_events=True)  # torch 2.11 warns where that is left out


def by_class(events: Iterable[Any], device: torch.device) -> dict[str, float]:
    """Each operator's own seconds, without those of the operators it calls, summed by class.

    `events` are the profiler's averages by name; those of kernels are left out, as their operators have their time.
    """
    seconds = dict.fromkeys(CLASSES, 0.0)
    for event in events:
        if event.device_type == torch.autograd.DeviceType.CPU:
            own = event.self_device_time_total if device.type == "cuda" else event.self_cpu_time_total
            seconds[operator_class(event.key) or OTHER] += own * 1e-6
    return seconds
