"""Ranks that train wrongly in the timed region, while all checks before and after it find everything right."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from planting import RANK, WRONG_RANK, Fault, replaced

from hpcai.data.order import Shard
from hpcai.train import state
from hpcai.train.communication import Communication
from hpcai.train.loop import Training
from hpcai.train.objective import Classification
from hpcai.training import assembly

FIRST = 2  # the first wrong step; all earlier ones, also in the warm-up, are right
Step = Callable[[Training, torch.Tensor, torch.Tensor], None]
WRONG = RANK == WRONG_RANK


def _weights(training: Training) -> list[torch.Tensor]:
    return list(training.state.module.parameters())


def _steps(
    wrong: Callable[[Step, Training, torch.Tensor, torch.Tensor], None], at_all: bool = True, first: int = FIRST
) -> Fault:
    """The steps of the timed region from `first` on are computed by `wrong`, which receives the genuine one."""

    def make(genuine: Step) -> Step:
        def step(self: Training, x: torch.Tensor, y: torch.Tensor) -> None:
            if at_all and self.state.progress.steps >= first:
                wrong(genuine, self, x, y)
            else:
                genuine(self, x, y)

        return step

    return replaced(Training, "_step", make)


# --- gradients


def _gradients(at_all: bool, chosen: Callable[[list[torch.Tensor]], list[torch.Tensor]]) -> Fault:
    """Some gradients are zero, before anything is sent to other ranks."""

    def wrong(genuine: Step, training: Training, x: torch.Tensor, y: torch.Tensor) -> None:
        hooks = [parameter.register_hook(torch.zeros_like) for parameter in chosen(_weights(training))]
        genuine(training, x, y)
        for hook in hooks:
            hook.remove()

    return _steps(wrong, at_all)


def gradient_of_a_rank_dropped() -> Fault:
    return _gradients(WRONG, lambda parameters: parameters)


def gradient_of_a_layer_dropped() -> Fault:
    return _gradients(True, lambda parameters: parameters[3:4])


def gradient_of_a_layer_dropped_by_a_rank() -> Fault:
    return _gradients(WRONG, lambda parameters: parameters[3:4])


def gradients_summed() -> Fault:
    """They are not divided by the number of ranks, which sums of integers do not show."""
    return replaced(Communication, "_start", lambda genuine: lambda *arguments: genuine(*arguments[:-1], 1))


# --- samples


def shard_of_another_rank() -> Fault:
    def make(genuine: type[Shard]) -> Any:
        return lambda n, rank, ranks, batch: genuine(n, 0, ranks, batch)

    return replaced(assembly, "Shard", make)


def _indices(change: Callable[[int, np.ndarray], np.ndarray]) -> Fault:
    def make(genuine: Callable[..., Iterator[np.ndarray]]) -> Any:
        def indices(self: Training, *arguments: Any) -> Iterator[np.ndarray]:
            for step, batch in enumerate(genuine(self, *arguments)):
                yield change(step, batch) if WRONG else batch

        return indices

    return replaced(Training, "_indices", make)


def sample_trained_twice() -> Fault:
    return _indices(lambda step, batch: np.append(batch[1:], batch[1]) if step == 0 else batch)


def first_batch_again_and_again() -> Fault:
    kept: list[np.ndarray] = []

    def again(step: int, batch: np.ndarray) -> np.ndarray:
        kept.append(batch)
        return kept[0][: len(batch)] if step else batch

    return _indices(again)


# --- weights


def _put(training: Training, values: list[torch.Tensor]) -> None:
    with torch.no_grad():
        torch._foreach_copy_(_weights(training), values)


def _copied(training: Training) -> list[torch.Tensor]:
    return [parameter.detach().clone() for parameter in _weights(training)]


def stale_weights() -> Fault:
    """One rank continues with its earlier weights."""

    def wrong(genuine: Step, training: Training, x: torch.Tensor, y: torch.Tensor) -> None:
        before = _copied(training)
        genuine(training, x, y)
        _put(training, before)

    return _steps(wrong, WRONG)


def stale_gradients() -> Fault:
    """All ranks compute the gradients at the weights of the previous step."""
    old: list[list[torch.Tensor]] = []

    def wrong(genuine: Step, training: Training, x: torch.Tensor, y: torch.Tensor) -> None:
        old.append(_copied(training))
        optimiser, now = training.state.optimiser, old[-1]
        _put(training, old.pop(0) if len(old) > 1 else now)
        hook = optimiser.register_step_pre_hook(lambda *_: _put(training, now))
        genuine(training, x, y)
        hook.remove()

    return _steps(wrong, first=1)


def _bit_flipped(training: Training) -> None:
    element = _weights(training)[-1].detach().view(torch.int32)[:1]
    element ^= 1


def bit_flipped_after_training() -> Fault:
    def make(genuine: Callable[..., None]) -> Any:
        def run(self: Training, *arguments: Any) -> None:
            genuine(self, *arguments)
            if WRONG:
                _bit_flipped(self)

        return run

    return replaced(Training, "run", make)


def bit_flipped_between_epochs() -> Fault:
    """On all ranks alike, so that they agree."""

    def make(genuine: Callable[..., Any]) -> Any:
        def validate(self: Training, *arguments: Any) -> Any:
            _bit_flipped(self)
            return genuine(self, *arguments)

        return validate

    return replaced(Training, "_validate", make)


def statistic_changed_between_epochs() -> Fault:
    """On all ranks alike, so that they agree."""

    def make(genuine: Callable[..., Any]) -> Any:
        def validate(self: Training, *arguments: Any) -> Any:
            next(self.state.module.buffers()).mul_(1.001)
            return genuine(self, *arguments)

        return validate

    return replaced(Training, "_validate", make)


def convolutions_not_updated() -> Fault:
    """On all ranks alike, as by a kernel that does not write them."""

    def wrong(genuine: Step, training: Training, x: torch.Tensor, y: torch.Tensor) -> None:
        before = _copied(training)
        genuine(training, x, y)
        for weight, old in zip(_weights(training), before, strict=True):
            if weight.ndim == 4:
                weight.detach().copy_(old)

    return _steps(wrong)


def bit_flipped_in_a_step() -> Fault:
    """The highest bit of the mantissa of one weight, in each step, on all ranks alike."""

    def wrong(genuine: Step, training: Training, x: torch.Tensor, y: torch.Tensor) -> None:
        genuine(training, x, y)
        element = _weights(training)[-2].detach().view(torch.int32)[:1, :1]
        element ^= 1 << 22

    return _steps(wrong)


# --- the recipe


def rate_one_percent_too_high() -> Fault:
    return replaced(Training, "_rate", lambda genuine: lambda self, step: 1.01 * genuine(self, step))


def _rule(change: Callable[[Any], dict[str, float]]) -> Fault:
    """The optimiser is made with other hyper-parameters."""

    def make(genuine: Callable[..., Any]) -> Any:
        return lambda rule, module, rate: genuine(replace(rule, **change(rule)), module, rate)

    return replaced(state, "build_optimiser", make)


def momentum_forgotten() -> Fault:
    return _rule(lambda rule: {"momentum": 0.0})


def momentum_ten_percent_too_small() -> Fault:
    return _rule(lambda rule: {"momentum": 0.9 * rule.momentum})


def decay_forgotten() -> Fault:
    return _rule(lambda rule: {"decay": 0.0})


def smoothing_forgotten() -> Fault:
    def wrong(genuine: Step, training: Training, x: torch.Tensor, y: torch.Tensor) -> None:
        objective, training.objective = training.objective, Classification(0.0)
        genuine(training, x, y)
        training.objective = objective

    return _steps(wrong)
