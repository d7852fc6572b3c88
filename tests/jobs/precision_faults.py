"""Overflow with a loss scale, false credit for the step that it costs, and faults of a scale that the host applies."""

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import torch
from msgspec import structs
from planting import RANK, WRONG_RANK, WRONG_STEP, Fault, replaced

from hpcai.record.training import Work
from hpcai.train.precision import LossScaler
from hpcai.train.state import TrainingState
from hpcai.training import stages


def _overflow_of(first: int, last: int) -> Fault:
    """On one rank, from one step to another."""

    def make(genuine: Callable[..., None]) -> Any:
        def backward(self: TrainingState, loss: torch.Tensor) -> None:
            wrong = RANK == WRONG_RANK and first <= self.progress.steps <= last
            genuine(self, loss * 1e30 if wrong else loss)

        return backward

    return replaced(TrainingState, "backward", make)


def overflow_on_one_rank() -> Fault:
    return _overflow_of(WRONG_STEP, WRONG_STEP)


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


def overflowed_step_taken() -> Fault:
    """After an overflow, which each step has, the momentum is updated without the gradients."""

    def make(genuine: Callable[..., None]) -> Any:
        def step(self: LossScaler) -> None:
            for parameter in (p for each in self._optimiser.param_groups for p in each["params"]):
                parameter.grad.zero_()
            self._optimiser.step()

        return step

    faults = ExitStack()
    faults.enter_context(_overflow_of(WRONG_STEP, 1000))
    faults.enter_context(replaced(LossScaler, "step", make))
    return faults


def gradients_unscaled_by_half() -> Fault:
    """Gradients are divided by half of the loss scale."""

    def make(genuine: Callable[..., None]) -> Any:
        def check(self: LossScaler, samples: int) -> None:
            self.scale.div_(2)
            genuine(self, samples)
            self.scale.mul_(2)

        return check

    return replaced(LossScaler, "check", make)
