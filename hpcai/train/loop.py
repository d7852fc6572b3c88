"""The training loop of one base model: epochs of optimiser steps, each followed, when due, by a validation.

The device never waits for the host within an epoch: losses stay on it, and the clock is read where the epoch begins and
ends.
"""

from collections.abc import Callable, Iterable, Iterator
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
from hpcai.train.accounting import SampleAccount
from hpcai.train.callback import TrainingCallback
from hpcai.train.data_parallel import average_statistics
from hpcai.train.execution import Execution
from hpcai.train.milestones import EPOCH, VALIDATION, Milestones
from hpcai.train.objective import Classification, Objective
from hpcai.train.optimisers import set_rate
from hpcai.train.recipe import Recipe
from hpcai.train.replay import AuditedSteps
from hpcai.train.state import Progress, TrainingState
from hpcai.train.step_times import StepTimes
from hpcai.train.training_checks import TrainingChecks
from hpcai.train.validation import Validation
from hpcai.watch import activity

WARMUP_STEPS = 3  # full batches before the clock starts; the last, smaller batch of an epoch is warmed up as well


class Training:
    """One model's training on one rank: its state, samples and recipe.

    `execution` executes `state.module` in the group; `objective` is the loss minimised, by default the recipe's cross
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
        rounding_allowance: float = PRECISIONS["fp32"].rounding,
        warmup_steps: int = WARMUP_STEPS,
        audited_epoch: int | None = None,
        objective: Objective | None = None,
    ) -> None:
        self.state = state
        self.state.feedback = execution.communication.feedback
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
        audited = AuditedSteps(
            *(state, execution, recipe, self.objective, sampler, loader, group, seed, rounding_allowance),
            audited_epoch,
        )
        account = SampleAccount(sampler, group, recipe.batch, audited.order)
        self.checks = TrainingChecks(state, recipe, audited, account, shard.steps)
        self.warmup_steps = warmup_steps
        self.milestones = Milestones()
        self.stopped = False  # stopped before its end, by a shutdown or the callback

    def warm_up(self) -> int:
        """Run every shape once before the clock, then restore the state. Returns the number of steps."""
        before = self.state.snapshot()
        self.checks.begin_warm_up()
        steps = [*range(min(self.warmup_steps, self.shard.steps)), self.shard.steps - 1]
        runs = self.execution.settle(
            lambda: self.run_uncredited(steps), lambda: self.validation.warm_up(self.execution.eval_module)
        )
        self.state.restore(before)
        self.checks.end_warm_up()
        return runs * len(steps)

    def run_uncredited(self, steps: Iterable[int]) -> None:
        """Run steps of an epoch without credit: the weights change, the progress does not."""
        shapes = (self.shard.step_positions(step) for step in steps)
        for x, y, _ in self.loader(self.sampler.draw(positions) for positions in shapes):
            self.checks.audited.content.allocate(x, y)
            self._step(x, y)

    def run(
        self,
        phases: Phases,
        shutdown: Shutdown,
        report_progress: Callable[[Progress], None] = lambda _: None,
        callback: TrainingCallback | None = None,
    ) -> None:
        """Train from the state's position to the end of the last epoch, or of the epoch whose loss is not finite.

        If `shutdown` or the callback says so, it stops after a step, the same on all ranks of the group, and `stopped`
        is True. `report_progress` is called several times a second at most.
        """
        callback = callback or TrainingCallback()
        progress, asked = self.state.progress, (callback.should_stop, callback.should_pause)
        watch = StopCheck(shutdown, self.group.model, lambda: report_progress(progress), *asked)
        self.execution.executed.operations = progress.operations
        phases.seconds["training"] = progress.training_seconds
        phases.seconds["validation"] = progress.validation_seconds
        self.checks.start()
        finished = False
        while not (self.stopped or finished or self._over()):
            if progress.pending:
                with self.milestones.interval(VALIDATION, progress.epoch):
                    self._validate(phases, shutdown, callback)
                finished = not self.stopped and callback.on_validation_end(progress)
            else:
                self._train(phases, watch, callback)
            if callback.pauses and (self.stopped or watch.pausing):
                self.checks.settle()
                callback.on_pause()
                watch.pausing = False
            report_progress(progress)
        self.checks.finish()
        self.checks.compare_steps(float(self.step_times.seconds.sum()), self.step_times.parts)

    def _over(self) -> bool:
        progress = self.state.progress
        return not progress.pending and (progress.loss is None or progress.epoch >= self.recipe.epochs)

    def _train(self, phases: Phases, watch: StopCheck, callback: TrainingCallback) -> None:
        """An epoch, or a part of it."""
        progress, executed = self.state.progress, self.execution.executed
        with phases.measure("replay"):
            self.checks.begin()
        exposed = self.execution.communication.exposed_seconds
        loaded, sent = self.loader.measured(), self.execution.communication.measured()
        interval = self.milestones.interval(EPOCH, epoch := progress.epoch + 1)
        with interval, phases.measure("training"), self.checks.region.part(), activity.steps(epoch):
            self._epoch(executed, watch, callback)
        self.step_times.close()
        progress.load(loaded, self.loader.measured())
        progress.send(sent, self.execution.communication.measured())
        progress.exposed_seconds += self.execution.communication.exposed_seconds - exposed
        progress.training_seconds = phases.seconds["training"]
        if not self.stopped or callback.pauses:
            with phases.measure("replay"):
                self.checks.close()
                executed.operations = progress.operations  # replayed steps are not credited
        if progress.step == self.shard.steps and (not self.stopped or callback.pauses):
            progress.loss = self._close_epoch()
            progress.pending = self.recipe.evaluates(progress.epoch) or progress.loss is None

    def _epoch(self, executed: Executed, watch: StopCheck, callback: TrainingCallback) -> None:
        progress = self.state.progress
        self.step_times.begin()
        for x, y, indices in self.loader(self._indices(progress), self._augmentation(progress)):
            self.checks.note(x, y, indices)
            set_rate(self.state.optimiser, self._rate(progress.steps))
            self.checks.before(y)
            self._step(x, y)
            self.checks.after()
            progress.step += 1
            progress.steps += 1
            progress.samples += len(y)
            progress.operations = executed.operations
            callback.on_batch_end()
            due = watch.due()
            self.step_times.mark()
            if due:
                self.stopped = not watch.pausing
                break
        if not (self.stopped or watch.pausing) and progress.step != self.shard.steps:
            raise DataError(f"epoch {progress.epoch + 1} ended after {progress.step} of {self.shard.steps} steps")

    def _indices(self, progress: Progress) -> Iterator[Integers]:
        order = self.loader.order(self.sampler, self.seed, progress.epoch, self.group.divided.replicas)
        return training_indices(self.shard, order, self.sampler, progress.step)

    def _augmentation(self, progress: Progress) -> Iterator[Any] | None:
        member = self.group.coordinates.group
        return self.loader.augmentation(self.seed, member, progress.epoch, self.shard, progress.step)

    def _rate(self, step: int) -> float:
        return self.recipe.rate(step, self.shard.steps)

    @activity.step
    def _step(self, x: torch.Tensor, y: torch.Tensor) -> None:
        loss = self.execution.step(self.objective, self.state, x, y, self.state.progress.steps)
        self.state.update(len(y))
        self.state.loss_sum += loss

    def _close_epoch(self) -> float | None:
        """End the epoch; returns the mean loss over steps and ranks, None if it is not finite."""
        state, progress = self.state, self.state.progress
        ranks = self.group.divided.replicas * self.group.divided.shards  # of the last stage, which has the loss
        loss = self.group.model.allreduce(state.loss_sum.item()) / (ranks * self.shard.steps)
        state.loss_sum.zero_()
        progress.epoch, progress.step = progress.epoch + 1, 0
        return loss if abs(loss) < float("inf") else None

    def _validate(self, phases: Phases, shutdown: Shutdown, callback: TrainingCallback) -> None:
        """Validate the model; one that is interrupted by a shutdown does not count, and is still to come."""
        progress = self.state.progress
        self._average_statistics(phases)

        def stop() -> bool:
            callback.on_batch_end()
            return shutdown.poll() or callback.should_stop()

        with phases.measure("validation"):
            module = self.execution.eval_module
            with self.checks.judging(module) as seen:
                result = self.validation.run(module, self.group, stop)
        progress.validation_seconds = phases.seconds["validation"]
        late = self.group.model.allreduce(int(callback.should_stop()), MPI.MAX)
        self.stopped = shutdown.agreed(self.group.model) or bool(late)
        if self.stopped:
            return
        self.checks.judge(seen, self.validation.shard.steps)
        with phases.measure("replay"):
            self.validation.content.close()
            self.validation.content.recount(result.correct, self.group)
        slowest = self.group.model.allreduce(progress.training_seconds + progress.validation_seconds, MPI.MAX)
        point = result.point(progress.epoch, slowest, progress.loss)
        progress.loss, progress.pending = point.loss, False
        progress.curve.append(point)
        self.milestones.curve.append(point)

    def _average_statistics(self, phases: Phases) -> None:
        """Average the group's batch norm statistics, the only change outside of steps; compare checksums before."""
        with phases.measure("replay"):
            self.checks.check_weights()
        with phases.measure("validation"):
            average_statistics(self.state.module, self.group)
        with phases.measure("replay"):
            self.checks.record_checksums()
