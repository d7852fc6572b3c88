"""Training steps that are timed before the training, to choose kernels; nothing is averaged or updated."""

import secrets
from dataclasses import dataclass
from itertools import count
from typing import Any

import numpy as np
import torch
from mpi4py import MPI

from hpcai import clock
from hpcai.models.module import Layers
from hpcai.train.loop import Training

Batch = tuple[torch.Tensor, torch.Tensor]

BUDGET = 5.0  # seconds of timed steps after the first round
MAX_ROUNDS = 9  # maximal number of rounds


@dataclass(frozen=True)
class TimedSteps:
    """Training steps without gradient averaging, each on one of two full batches; ranks begin them together."""

    training: Training
    comm: MPI.Comm
    device: torch.device
    batches: tuple[Batch, Batch]

    @classmethod
    def of(cls, training: Training, comm: MPI.Comm, device: torch.device) -> "TimedSteps":
        ((x, y, _),) = training.loader([training.sampler.draw(training.shard.step_positions(0))])
        again = torch.arange(training.recipe.batch, device=device) % len(x)  # a small dataset may have no full batch
        full = (x, y) if len(x) == len(again) else (x[again].contiguous(memory_format=torch.channels_last), y[again])
        reverse = (full[0].flip(0).contiguous(memory_format=torch.channels_last), full[1].flip(0))
        return cls(training, comm, device, (full, reverse))

    def seconds(self, module: Layers) -> float:
        """Seconds of one forward and backward pass, of a batch that is drawn. Collective."""
        batch = secrets.choice(self.batches)
        clock.synchronise(self.device)
        self.comm.Barrier()
        begin = clock.now()
        self.training.objective(module, *batch, 0).backward()
        clock.synchronise(self.device)
        elapsed = clock.now() - begin
        module.zero_grad(set_to_none=True)
        return elapsed

    def rounds(self, once: Any) -> int:
        """Call `once` as often as the budget allows, the same on all ranks; returns the number of calls."""
        spent = 0.0
        for number in count(1):
            begin = clock.now()
            once(number)
            elapsed: float = self.comm.allreduce(clock.now() - begin, MPI.MAX)
            spent += elapsed if number > 1 else 0.0
            if number == MAX_ROUNDS or (number > 1 and spent + elapsed > BUDGET):
                return number
        raise AssertionError("there is a most")

    def of_slowest(self, best: dict[Any, float]) -> dict[Any, float]:
        """The maximum over the ranks, by name; the names are in the same order on each."""
        local = np.array([*best.values()])
        self.comm.Allreduce(MPI.IN_PLACE, local, MPI.MAX)
        return dict(zip(best, local.tolist(), strict=True))
