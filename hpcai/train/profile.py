"""Where the time of a training step goes, by class of operation: a short profiled stretch, outside the clock."""

import os
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch

from hpcai.clock import synchronise
from hpcai.train.execution import Execution
from hpcai.train.loop import Training
from hpcai.train.operators import CLASSES, OTHER, operator_class

STEPS = 2  # that are profiled, after one that is not
SILENCE = "99"  # above every level of torch's profiling library, which else tells on stderr when it begins and ends


def operation_seconds(training: Training, records: bool) -> dict[str, float]:
    """Seconds per class of operation of a few training steps of this rank, then the state is what it was before.

    The ranks of a group call it together; only one that `records` profiles, on the others every class has 0. On a CPU
    they are seconds of the thread that trains, on a GPU of the kernels that it launched: 0 where the driver tells none.
    """
    state, full = training.state, [step % training.shard.steps for step in range(STEPS)]
    before = state.snapshot()
    with _layer_by_layer(training.execution):
        training.practise(full[:1])
        with profiler(state.device) if records else nullcontext() as recorded:
            training.practise(full)
            synchronise(state.device)
    state.restore(before)
    return by_class(recorded.key_averages() if recorded else (), state.device)


@contextmanager
def _layer_by_layer(execution: Execution) -> Iterator[None]:
    """Train so that each operator is seen by itself: what was compiled or captured is one piece to the profiler."""
    replica, execution.replica = execution.replica, execution.layer_by_layer
    yield
    execution.replica = replica


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
