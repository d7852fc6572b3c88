"""Record of what the stages of the models did, in memory that grows with the stages of a model only."""

import numpy as np
import torch
from mpi4py import MPI

from hpcai.comm.grid import Group
from hpcai.machine import device as devices
from hpcai.machine import memory
from hpcai.record.pipeline import Pipelined, StageWork
from hpcai.train import step_times
from hpcai.train.communication import ACTIVATIONS, MICRO_BATCHES, STAGE_WAIT
from hpcai.train.state import Progress


def pipelined_by(progress: Progress, group: Group, device: torch.device) -> Pipelined | None:
    """The stages of all models; None without a pipeline. Collective over the grid."""
    stages = group.divided.stages
    if stages == 1:
        return None
    operations = _by_stage(group, progress.operations, MPI.SUM)
    passed = _by_stage(group, int(progress.sent.get(MICRO_BATCHES, 0.0)), MPI.SUM)
    ranks = group.active.size // stages
    busy = _by_stage(group, step_times.busy_seconds(progress), MPI.SUM) / ranks
    waiting = _by_stage(group, progress.sent.get(STAGE_WAIT, 0.0), MPI.SUM) / ranks
    peak = devices.peak_memory(device) if device.type == "cuda" else memory.peak()
    peaks = _by_stage(group, peak, MPI.MAX)
    return Pipelined(
        bytes=step_times.mean(progress.sent.get(ACTIVATIONS, 0.0), group.active),
        stages=tuple(
            StageWork(
                operations=int(operations[stage]),
                micro_batches=int(passed[stage]),
                busy=float(busy[stage]),
                waiting=float(waiting[stage]),
                peak_bytes=int(peaks[stage]),
            )
            for stage in range(stages)
        ),
    )


def _by_stage(group: Group, value: float, operation: MPI.Op) -> np.ndarray:
    """The sums or maxima of a number over the ranks of each stage of all models."""
    kind = np.int64 if isinstance(value, int) else np.float64
    values = np.zeros(group.divided.stages, kind)
    values[group.place.stage] = value
    group.active.Allreduce(MPI.IN_PLACE, values, operation)
    return values
