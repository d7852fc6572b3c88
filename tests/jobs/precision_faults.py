"""Overflow in fp16, and false credit for the step that it costs."""

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import torch
from msgspec import structs
from planting import RANK, WRONG_RANK, WRONG_STEP, Fault, replaced

from hpcai.record.training import Work
from hpcai.train.state import TrainingState
from hpcai.training import stages


def overflow_on_one_rank() -> Fault:
    def make(genuine: Callable[..., None]) -> Any:
        def backward(self: TrainingState, loss: torch.Tensor) -> None:
            genuine(self, loss * 1e30 if RANK == WRONG_RANK and self.progress.steps == WRONG_STEP else loss)

        return backward

    return replaced(TrainingState, "backward", make)


def skipped_step_credited() -> Fault:
    def make(genuine: Callable[..., Work]) -> Any:
        def work_of(*arguments: Any) -> Work:
            found = genuine(*arguments)
            return structs.replace(found, samples=found.samples + found.skipped_samples)

        return work_of

    faults = ExitStack()
    faults.enter_context(overflow_on_one_rank())
    faults.enter_context(replaced(stages, "work_of", make))
    return faults
