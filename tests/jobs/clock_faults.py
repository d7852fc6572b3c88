"""Faults in what the clock measures."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from time import sleep
from typing import Any

from planting import Fault, replaced

from hpcai import clock
from hpcai.clock import Phases
from hpcai.train import step_times
from hpcai.train.loop import Training


def half_the_clock() -> Fault:
    """Every reading of the clock is half of what it should be."""

    def halved(genuine: Callable[[], float]) -> Any:
        return lambda: genuine() / 2

    both = _long_steps()
    for owner in (clock, step_times):
        both.enter_context(replaced(owner, "now", halved))
    return both


def a_phase_in_half() -> Fault:
    """The training takes half of its time, by the same clock."""

    def make(genuine: Callable[..., Any]) -> Any:
        @contextmanager
        def measure(self: Phases, phase: str) -> Iterator[None]:
            before = self.seconds.get(phase, 0.0)
            with genuine(self, phase):
                yield
            if phase == "training":
                self.seconds[phase] = (before + self.seconds[phase]) / 2

        return measure

    both = _long_steps()
    both.enter_context(replaced(Phases, "measure", make))
    return both


def _long_steps() -> ExitStack:
    """Every step takes 20 ms more: half of a shorter training is within what two readings may differ by."""

    def make(genuine: Callable[..., None]) -> Any:
        def step(self: Training, *arguments: Any) -> None:
            sleep(0.02)
            genuine(self, *arguments)

        return step

    stack = ExitStack()
    stack.enter_context(replaced(Training, "_step", make))
    return stack


def step_times_tenfold() -> Fault:
    """Every step takes ten times its time, by the statistics of steps."""

    def make(genuine: Callable[..., Any]) -> Any:
        return property(lambda self: genuine.fget(self) * 10)  # type: ignore[attr-defined]

    return replaced(step_times.StepTimes, "seconds", make)


def a_step_outside_the_clock() -> Fault:
    """The first step of an epoch runs before the training time begins."""

    def make(genuine: Callable[..., None]) -> Any:
        def begin(self: Any) -> None:
            genuine(self)
            training = self.fault_of
            x, y, _ = next(iter(training.loader([training.sampler.draw(training.shard.step_positions(0))])))
            training._step(x, y)

        return begin

    return _with_training("begin", make)


def a_backward_pass_outside_the_clock() -> Fault:
    """Half of the gradients are computed before the training time begins."""

    def make(genuine: Callable[..., None]) -> Any:
        def begin(self: Any) -> None:
            genuine(self)
            training = self.fault_of
            x, y, _ = next(iter(training.loader([training.sampler.draw(training.shard.step_positions(0))])))
            training.state.backward(training.objective(training.execution.layer_by_layer, x, y, 0))
            training.state.optimiser.zero_grad()

        return begin

    return _with_training("begin", make)


@contextmanager
def _with_training(name: str, make: Callable[[Callable[..., Any]], Any]) -> Iterator[None]:
    """A method of the checks beside a training is replaced by one that knows the training."""
    from hpcai.train.training_checks import TrainingChecks

    def remember(genuine: Callable[..., None]) -> Any:
        def construct(self: Training, *arguments: Any, **keywords: Any) -> None:
            genuine(self, *arguments, **keywords)
            self.checks.fault_of = self  # type: ignore[attr-defined]

        return construct

    with replaced(Training, "__init__", remember), replaced(TrainingChecks, name, make):
        yield
