"""Audited steps of an epoch: drawn from the system's entropy, copied when they run, replayed after the epoch."""

from collections.abc import Iterator
from functools import partial
from secrets import randbits
from typing import NamedTuple

import torch

from hpcai.comm.grid import Group
from hpcai.data.audit_draws import ENTROPY_BITS, drawn_steps
from hpcai.data.bootstrap import Sampler
from hpcai.data.image_loader import Loader
from hpcai.data.order import Order, Shard
from hpcai.data.philox import Integers
from hpcai.formulas import audits
from hpcai.formulas.precision import PRECISIONS
from hpcai.kernels.providers import VENDOR
from hpcai.train.clipped_step import clipped
from hpcai.train.execution import Execution
from hpcai.train.objective import Objective
from hpcai.train.other_shards import OtherShards
from hpcai.train.recipe import Recipe
from hpcai.train.replayed_step import StepSnapshot
from hpcai.train.state import TrainingState
from hpcai.train.step_times import timestamps
from hpcai.train.training_content import TrainingContent
from hpcai.train.unchecked_content import Unchecked
from hpcai.train.update_check import Comparison, Step, compare_update
from hpcai.watch import activity

NONE = -1


def rounding_allowance(precision: str, kernels: str, compiled: bool = False, shards: int = 1) -> float:
    """Largest relative change of a tensor's gradient that a replay may show by rounding.

    Larger where other kernels train than replay: compiled ones, or those of `KERNELS` except for int8 (see
    `providers.vendor_kernels`); or where partial sums of `shards` are added otherwise.
    """
    otherwise = compiled or shards > 1 or (kernels != VENDOR and not PRECISIONS[precision].quantised)
    return PRECISIONS[precision].rounding * (4 if otherwise else 1)


class Audited(NamedTuple):
    """An audited step: epoch and step, from 0."""

    epoch: int
    step: int


class AuditedSteps:
    """The audited steps of one rank's training. Only `before` and `after` run inside the timed region.

    at_once: most of an epoch. only_epoch: the one epoch, from 0, that has them; None for all.
    """

    def __init__(
        self,
        state: TrainingState,
        execution: Execution,
        recipe: Recipe,
        objective: Objective,
        sampler: Sampler,
        loader: Loader,
        group: Group,
        seed: int,
        rounding_allowance: float,
        only_epoch: int | None = None,
    ) -> None:
        self._state, self._recipe, self._sampler, self._loader = state, recipe, sampler, loader
        self.objective, self.group, self._seed, self._rounding_allowance = objective, group, seed, rounding_allowance
        self._shard = Shard(sampler.size, group.place.replica, group.divided.replicas, recipe.batch)
        self._only_epoch = only_epoch
        first = StepSnapshot(state, execution, recipe.rule)
        most = audits.at_once(first.nbytes) if only_epoch is None and not state.feedback else 1
        self._snapshots = [first, *(StepSnapshot(state, execution, recipe.rule) for _ in range(most - 1))]
        self._marks = timestamps(state.device, 4 * most)
        self._of: dict[int, StepSnapshot] = {}  # by step of this epoch
        self.drawn: tuple[int, tuple[int, ...]] = (NONE, ())  # epoch, and its audited steps
        self._marked = 0
        self.content: TrainingContent | Unchecked = Unchecked()
        self.entropy = 0  # the same on all ranks of the group
        self.done: list[Audited] = []
        self.inside, self.outside = 0.0, 0.0  # seconds of the copies, and of all checks after epochs

    def begin(self, training_seconds: float, epoch_seconds: float) -> None:
        """An epoch begins: draw its audited steps. It resumes: they are the same. Collective over the group.

        training_seconds: so far; epoch_seconds: of the epoch before, 0 if there is none.
        """
        self.entropy = self.entropy or self.group.model.bcast(randbits(ENTROPY_BITS))
        progress, self._marked = self._state.progress, 0
        if self.drawn[0] != progress.epoch:
            self.drawn = progress.epoch, tuple(self._draw(progress.epoch, training_seconds, epoch_seconds))
        left = [step for step in self.drawn[1] if step >= progress.step]
        self._of = dict(zip(left, self._snapshots, strict=False))

    def _draw(self, epoch: int, training_seconds: float, epoch_seconds: float) -> list[int]:
        spent = training_seconds, self.inside, self.outside
        count = audits.audits(len(self._snapshots), len(self.done), spent, epoch_seconds)
        if self._only_epoch not in (None, epoch):
            return []
        count, steps = self.group.model.bcast(count), range(self._shard.steps)
        return drawn_steps(count, steps, self.entropy, self.group.coordinates.group, epoch)

    def before(self, y: torch.Tensor) -> None:
        """A step begins: copy weights and state if it is audited; y: its labels, which arrived last."""
        if snapshot := self._of.get(self._state.progress.step):
            self._mark()
            self.content.audited(y, self._state.optimiser)
            snapshot.before()
            self._mark()

    def after(self) -> None:
        """A step has ended: copy weights and state if it is audited."""
        if snapshot := self._of.get(self._state.progress.step):
            self._mark()
            snapshot.after()
            self._mark()

    def _mark(self) -> None:
        self._marks.note(self._marked)
        self._marked += 1

    def replayed(self) -> Iterator[tuple[str, Comparison]]:
        """Replay the epoch's audited steps up to here: where, and the comparison. Collective over the group."""
        epoch, end = self._state.progress.epoch, self._state.progress.step
        self.inside += float(self._marks.intervals(self._marked)[::2].sum()) if self._marked else 0.0
        for step, snapshot in self._of.items():
            if step >= end:
                break
            where = f"model {self.group.coordinates.group}, epoch {epoch + 1}, step {step + 1}"
            yield where, self._comparison(epoch, step, snapshot)
            self.done.append(Audited(epoch, step))
        self._of = {}

    def _comparison(self, epoch: int, step: int, snapshot: StepSnapshot) -> Comparison:
        augmented = self._loader.augmentation(
            self._seed, self.group.coordinates.group, epoch, self._shard, step, step + 1
        )
        number = epoch * self._shard.steps + step
        with activity.steps(watched=True):
            ((x, y, _),) = self._loader([self._indices(epoch, step)], augmented)
            self.content.replayed(epoch, step, x, y)
            gradients = snapshot.gradients(self.objective, x, y, number)
        made = partial(snapshot.tensors, gradients, self.group.replicas, self.group.stages)
        tensors = clipped(made, self._recipe.clip, self._rounding_allowance, self.group.parts)
        found = compare_update(
            self._expected_step(number, snapshot), tensors, OtherShards(self.group.shards, self.group.parts)
        )
        found.deviation = max(found.deviation, snapshot.statistics_deviation(self._rounding_allowance))
        return found

    def _indices(self, epoch: int, step: int) -> Integers:
        """Samples that this rank should have trained on in a step."""
        return self._sampler.draw(self.order(epoch)(self._shard.step_positions(step)))

    def order(self, epoch: int) -> Order:
        """The order of an epoch, the same on all ranks of the group."""
        return self._loader.order(self._sampler, self._seed, epoch, self.group.divided.replicas)

    def _expected_step(self, number: int, snapshot: StepSnapshot) -> Step:
        """The step (from 0, over all epochs) by the recipe."""
        return Step(
            rule=self._recipe.rule,
            rate=self._recipe.rate(number, self._shard.steps),
            number=number + 1 - snapshot.skipped_before,
            ranks=self.group.divided.replicas,
            rounding_allowance=self._rounding_allowance,
            skipped=snapshot.skipped,
        )
