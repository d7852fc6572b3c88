"""The training loop of one base model: epochs of optimiser steps, each followed, when due, by a validation.

The device never waits in an epoch for the one who gives it work: losses stay there, and the clock is read where the
epoch begins and ends.
"""

from collections.abc import Callable, Iterable, Iterator
from math import isfinite
from typing import Any

import torch
from mpi4py import MPI

from hpcai.clock import Phases
from hpcai.comm.grid import Group
from hpcai.comm.shutdown import Shutdown, StopCheck
from hpcai.data.bootstrap import Sampler
from hpcai.data.image_loader import Loader
from hpcai.data.order import Shard, training_indices
from hpcai.data.philox import Integers
from hpcai.errors import DataError
from hpcai.formulas.precision import PRECISIONS
from hpcai.models.operation_counter import Executed
from hpcai.train.callback import Guide
from hpcai.train.data_parallel import average_statistics
from hpcai.train.execution import Execution
from hpcai.train.objective import Classification, Objective
from hpcai.train.optimisers import set_rate
from hpcai.train.recipe import Recipe
from hpcai.train.replay import Proof
from hpcai.train.state import CurvePoint, Progress, TrainingState
from hpcai.train.step_times import StepTimes
from hpcai.train.validation import Validation

WARMUP_STEPS = 3  # full batches before the clock starts; the last, smaller batch of an epoch is warmed up as well


def _unheard(progress: Progress) -> None:
    """Nobody listens."""


class Training:
    """One model's training on one rank: what it trains, on which samples, by which recipe.

    `execution` is how the group trains `state.module`, `objective` what it makes small, by default the recipe's cross
    entropy. All but `shard` (its rank) is the same on the group's ranks.
    """

    def __init__(
        self,
        state: TrainingState,
        execution: Execution,
        recipe: Recipe,
        sampler: Sampler,
        shard: Shard,
        loader: Loader,
        validation: Validation,
        group: Group,
        seed: int,
        noise: float = PRECISIONS["fp32"].rounding,
        warmup_steps: int = WARMUP_STEPS,
        audited: int | None = None,
        objective: Objective | None = None,
    ) -> None:
        self.state = state
        self.execution = execution
        self.recipe = recipe
        self.objective = objective or Classification(recipe.smoothing)
        self.sampler = sampler
        self.shard = shard
        self.loader = loader
        self.validation = validation
        self.group = group
        self.seed = seed
        self.step_times = StepTimes(state.device, shard.steps)
        self.proof = Proof(state, recipe, self.objective, sampler, loader, group, seed, noise, audited)
        self.warmup_steps = warmup_steps
        self.stopped = False  # before its end, because the run was to end, or by the guide

    def warm_up(self) -> int:
        """Run every shape once before the clock, then forget all of it. Returns the number of steps."""
        before = self.state.snapshot()
        self.proof.seal()
        steps = [*range(min(self.warmup_steps, self.shard.steps)), self.shard.steps - 1]
        runs = self.execution.settle(
            lambda: self.practise(steps), lambda: self.validation.warm_up(self.execution.judged)
        )
        self.state.restore(before)
        self.proof.check_weights()
        return runs * len(steps)

    def practise(self, steps: Iterable[int]) -> None:
        """Run these steps of an epoch without credit: the weights change, the progress does not."""
        shapes = (self.shard.step_positions(step) for step in steps)
        for x, y, _ in self.loader(self.sampler.draw(positions) for positions in shapes):
            self._step(x, y)

    def run(
        self,
        phases: Phases,
        shutdown: Shutdown,
        tell: Callable[[Progress], None] = _unheard,
        guide: Guide | None = None,
    ) -> None:
        """Train from the state's position to the end of the last epoch, or of the epoch whose loss is not finite.

        When `ending` or the guide says so, it stops after a step, the same on all ranks of the group: `stopped` is True
        then. `tell` hears of the progress several times a second at most.
        """
        guide = guide or Guide()
        watch = StopCheck(shutdown, self.group.model, lambda: tell(self.state.progress), guide.overdue)
        executed = self.execution.executed
        executed.operations = self.state.progress.operations
        phases.seconds["training"] = self.state.progress.training_seconds
        phases.seconds["validation"] = self.state.progress.validation_seconds
        self.proof.seal()
        loss: float | None = 0.0
        enough = False
        while loss is not None and self.state.progress.epoch < self.recipe.epochs and not (self.stopped or enough):
            with phases.measure("replay"):
                self.proof.begin()
            waited, exposed = self.loader.wait_seconds, self.execution.communication.exposed_seconds
            loaded = self.loader.measured()
            with phases.measure("training"):
                self._epoch(executed, watch, guide)
            self.step_times.close()
            self.state.progress.data_wait_seconds += self.loader.wait_seconds - waited
            self.state.progress.load(loaded, self.loader.measured())
            self.state.progress.exposed_seconds += self.execution.communication.exposed_seconds - exposed
            self.state.progress.training_seconds = phases.seconds["training"]
            if not self.stopped:
                with phases.measure("replay"):
                    self.proof.close()
                    executed.operations = self.state.progress.operations  # what was repeated has no credit
                loss = self._close_epoch()
                if self.recipe.evaluates(self.state.progress.epoch) or loss is None:
                    loss = self._validate(phases, loss, shutdown, guide)
                    enough = not self.stopped and guide.enough(self.state.progress)
            tell(self.state.progress)

    def _epoch(self, executed: Executed, watch: StopCheck, guide: Guide) -> None:
        progress = self.state.progress
        self.step_times.begin()
        for x, y, indices in self.loader(self._indices(progress), self._augmentation(progress)):
            self.proof.note(indices)
            set_rate(self.state.optimiser, self._rate(progress.steps))
            if progress.step == self.proof.step:
                self._audited_step(x, y)
            else:
                self._step(x, y)
            progress.step += 1
            progress.steps += 1
            progress.samples += len(y)
            progress.operations = executed.operations
            self.step_times.mark()
            guide.between()
            if watch.due():
                self.stopped = True
                break
        if not self.stopped and progress.step != self.shard.steps:
            raise DataError(f"epoch {progress.epoch + 1} ended after {progress.step} of {self.shard.steps} steps")

    def _indices(self, progress: Progress) -> Iterator[Integers]:
        order = self.loader.order(self.sampler, self.seed, progress.epoch, self.group.degree)
        return training_indices(self.shard, order, self.sampler, progress.step)

    def _augmentation(self, progress: Progress) -> Iterator[Any] | None:
        member = self.group.coordinates.group
        return self.loader.augmentation(self.seed, member, progress.epoch, self.shard, progress.step)

    def _rate(self, step: int) -> float:
        return self.recipe.rate(step, self.shard.steps)

    def _audited_step(self, x: torch.Tensor, y: torch.Tensor) -> None:
        self.proof.before()
        self._step(x, y)
        self.proof.after()

    def _step(self, x: torch.Tensor, y: torch.Tensor) -> None:
        loss = self.objective(self.execution.replica, x, y, self.state.progress.steps)
        self.state.backward(loss)
        self.execution.end_backward()
        self.state.update(len(y))
        self.state.loss_sum += loss.detach()

    def _close_epoch(self) -> float | None:
        """Book the epoch; its mean loss over steps and ranks, None if that is not a finite number."""
        state, progress = self.state, self.state.progress
        loss = self.group.model.allreduce(state.loss_sum.item()) / (self.group.degree * self.shard.steps)
        state.loss_sum.zero_()
        progress.epoch, progress.step = progress.epoch + 1, 0
        return loss if abs(loss) < float("inf") else None

    def _validate(self, phases: Phases, loss: float | None, shutdown: Shutdown, guide: Guide) -> float | None:
        """Judge the model as it stands; its loss, None if an output is not a finite number.

        A validation during which the run is to end does not count.
        """
        progress = self.state.progress
        self._average_statistics(phases)

        def asked() -> bool:
            guide.between()
            return shutdown.poll() or guide.overdue()

        with phases.measure("validation"):
            tally = self.validation.run(self.execution.judged, self.group, asked)
        progress.validation_seconds = phases.seconds["validation"]
        late = self.group.model.allreduce(int(guide.overdue()), MPI.MAX)
        self.stopped = shutdown.agreed(self.group.model) or bool(late)
        if self.stopped:
            return loss
        elapsed = progress.training_seconds + progress.validation_seconds
        blown = bool(tally.blown) or not isfinite(tally.loss or 0.0)  # finite outputs may differ by more than exp takes
        slowest = self.group.model.allreduce(elapsed, MPI.MAX)
        loss = None if blown else loss
        point = CurvePoint(progress.epoch, slowest, loss, tally.counted, tally.fingerprint)
        point.correct, point.average_precision = tally.correct, tally.average_precision
        point.validation_loss = None if blown else tally.loss
        progress.curve.append(point)
        return loss

    def _average_statistics(self, phases: Phases) -> None:
        """Make the group's statistics one, the only change outside of steps: the seal is checked before it."""
        with phases.measure("replay"):
            self.proof.check_weights()
        with phases.measure("validation"):
            average_statistics(self.state.module, self.group)
        with phases.measure("replay"):
            self.proof.seal()
