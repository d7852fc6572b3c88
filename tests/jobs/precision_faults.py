"""Overflow in fp16, and what may be made of the step that it costs."""

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import torch
from planting import RANK, WRONG_RANK, WRONG_STEP, Fault, replaced

from hpcai.train.state import TrainingState
from hpcai.training import stages


def overflow_on_one_rank() -> Fault:
    def make(genuine: Callable[..., None]) -> Any:
        def backward(self: TrainingState, loss: torch.Tensor) -> None:
            genuine(self, loss * 1e30 if RANK == WRONG_RANK and self.progress.steps == WRONG_STEP else loss)

        return backward

    return replaced(TrainingState, "backward", make)


def skipped_step_credited() -> Fault:
    def make(genuine: Callable[..., dict[str, int]]) -> Any:
        def totals(*arguments: Any) -> dict[str, int]:
            found = genuine(*arguments)
            return {**found, "samples": found["samples"] + found["skipped_samples"]}

        return totals

    faults = ExitStack()
    faults.enter_context(overflow_on_one_rank())
    faults.enter_context(replaced(stages, "totals", make))
    return faults
