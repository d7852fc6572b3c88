"""Faults in steps that nobody audits: old gradients, updates left out, statistics."""

from collections.abc import Callable
from typing import Any

import torch
from planting import Fault, replaced

from hpcai.train.execution import Execution
from hpcai.train.loop import Training
from hpcai.train.state import TrainingState


def _audited(training: Any) -> bool:
    """Whether a fault would be seen by the replay of this step."""
    return training.state.progress.step in training.checks.audited._of


def old_gradients_unless_audited() -> Fault:
    """Every step that nobody audits uses the gradients of the first one."""

    def make(genuine: Callable[..., None]) -> Any:
        kept: list[torch.Tensor] = []

        def step(self: Training, x: torch.Tensor, y: torch.Tensor) -> None:
            update = self.state.optimiser.step

            def with_old(closure: Any = None) -> None:
                gradients = [parameter.grad for parameter in self.state.module.parameters()]
                kept[:] = kept or [gradient.clone() for gradient in gradients if gradient is not None]
                if not _audited(self):
                    torch._foreach_copy_(gradients, kept)
                update()

            self.state.optimiser.step = with_old  # type: ignore[method-assign, assignment]
            genuine(self, x, y)
            self.state.optimiser.__dict__.pop("step")

        return step

    return replaced(Training, "_step", make)


def one_layer_with_old_gradients() -> Fault:
    """One layer keeps the gradient of its first step."""

    def make(genuine: Callable[..., None]) -> Any:
        kept: list[torch.Tensor] = []

        def update(self: TrainingState, samples: int) -> None:
            weight = max(self.module.parameters(), key=torch.numel)
            assert weight.grad is not None
            if self.updated.__name__ != "nothing":
                kept.append(weight.grad.clone())
                weight.grad.copy_(kept[0])
            genuine(self, samples)

        return update

    return replaced(TrainingState, "update", make)


def trained_before_the_clock() -> Fault:
    """Steps that nobody credits, between the warm-up and the training."""

    def make(genuine: Callable[..., None]) -> Any:
        def run(self: Training, *arguments: Any, **options: Any) -> None:
            self.run_uncredited(range(self.shard.steps))
            genuine(self, *arguments, **options)

        return run

    return replaced(Training, "run", make)


def no_update_unless_audited() -> Fault:
    """Steps that nobody audits change nothing."""

    def make(genuine: Callable[..., None]) -> Any:
        def step(self: Training, x: torch.Tensor, y: torch.Tensor) -> None:
            optimiser = self.state.optimiser
            if not _audited(self):
                optimiser.step = lambda closure=None: None  # type: ignore[method-assign, assignment]
            genuine(self, x, y)
            optimiser.__dict__.pop("step", None)

        return step

    return replaced(Training, "_step", make)


def no_backward_pass_in_every_second_step() -> Fault:
    def make(genuine: Callable[..., torch.Tensor]) -> Any:
        seen: list[int] = []

        def step(self: Execution, objective: Any, state: TrainingState, x: Any, y: Any, number: int) -> torch.Tensor:
            seen.append(number)
            if state.updated.__name__ == "nothing" or len(seen) % 2:
                return genuine(self, objective, state, x, y, number)
            with torch.no_grad():
                loss = objective(self.replica, x, y, number)
            self.executed.end_backward()
            return loss

        return step

    return replaced(Execution, "step", make)


def statistics_without_momentum() -> Fault:
    """Batch norms keep the statistics of the last batch alone."""

    def make(genuine: Callable[..., Any]) -> Any:
        def step(self: Training, x: torch.Tensor, y: torch.Tensor) -> None:
            for part in self.state.module.modules():
                if isinstance(part, torch.nn.BatchNorm2d):
                    part.momentum = 1.0
            genuine(self, x, y)
            for part in self.state.module.modules():
                if isinstance(part, torch.nn.BatchNorm2d):
                    part.momentum = 0.1

        return step

    return replaced(Training, "_step", make)
