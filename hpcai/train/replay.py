"""Replay checks beside the training: it used the samples of the epoch, and its steps follow the recipe.

In the timed region a rank only copies: the indices of each batch, and in one step an epoch the weights and the
optimiser's state. Everything else happens between epochs, outside the training clock.
"""

from dataclasses import dataclass

import numpy as np
import torch
from mpi4py import MPI

from hpcai.comm.grid import Group
from hpcai.data.bootstrap import Sampler
from hpcai.data.image_loader import Loader
from hpcai.data.order import Order, Shard
from hpcai.data.philox import Integers, Purpose, below, stream
from hpcai.formulas.precision import PRECISIONS
from hpcai.kernels.providers import VENDOR
from hpcai.record.preflight import Worst as WorstRecord
from hpcai.record.training import Replay
from hpcai.train.accounting import SampleAccount
from hpcai.train.content_findings import ContentFindings
from hpcai.train.execution import Execution
from hpcai.train.objective import Objective
from hpcai.train.other_shards import OtherShards
from hpcai.train.recipe import Recipe
from hpcai.train.replayed_step import StepSnapshot, checksums
from hpcai.train.state import TrainingState
from hpcai.train.training_content import TrainingContent
from hpcai.train.unchecked_content import Unchecked
from hpcai.train.update_check import Comparison, Step, Worst, compare_update

NONE = -1


def rounding_allowance(precision: str, kernels: str, compiled: bool = False, shards: int = 1) -> float:
    """Largest relative change of a tensor's gradient that a replay may show by rounding.

    Larger where other kernels train than replay: compiled ones, or those of `KERNELS` except for int8 (see
    `providers.vendor_kernels`); or where partial sums of `shards` are added otherwise.
    """
    otherwise = compiled or shards > 1 or (kernels != VENDOR and not PRECISIONS[precision].quantised)
    return PRECISIONS[precision].rounding * (4 if otherwise else 1)


@dataclass
class Findings:
    """Results of the replay checks of one rank's training so far."""

    replayed: int = 0  # steps
    deviation: Worst = (0.0, "")
    lost: Worst = (0.0, "")
    wrong_epochs: int = 0  # epochs with wrong samples; the same on all ranks of the group
    changed: int = 0  # how often weights or statistics changed outside of steps

    def add(self, others: "Findings") -> None:
        """Add the findings of another training of this rank."""
        self.replayed += others.replayed
        self.wrong_epochs += others.wrong_epochs
        self.changed += others.changed
        self.deviation = max(self.deviation, others.deviation)
        self.lost = max(self.lost, others.lost)


class ReplayCheck:
    """The replay checks of one rank's training.

    All methods but `note`, `before` and `after` run outside the timed region.
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
        replayed_epoch: int | None = None,
    ) -> None:
        """`replayed_epoch`: the one epoch, from 0, of which a step is replayed; None for all."""
        self._state, self._recipe, self._sampler, self._loader = state, recipe, sampler, loader
        self._objective, self._group, self._seed, self._rounding_allowance = objective, group, seed, rounding_allowance
        self._shard = Shard(sampler.size, group.place.replica, group.divided.replicas, recipe.batch)
        self._account = SampleAccount(sampler, group, recipe.batch, self._order)
        self._snapshot = StepSnapshot(state, execution, recipe.rule)
        self._checksums: torch.Tensor | None = None
        self._start = 0
        self._replayed_epoch = replayed_epoch
        self.findings = Findings()
        self.contents = ContentFindings()
        self.content: TrainingContent | Unchecked = Unchecked()
        self.step = 0  # step of the epoch that is replayed, or NONE
        self.after = self._snapshot.after

    def begin(self) -> None:
        """An epoch begins or resumes: draw the step to replay, a function of seed, model and epoch."""
        epoch, self._start = self._state.progress.epoch, self._state.progress.step
        number = stream(Purpose.REPLAYED_STEP, self._group.coordinates.group)
        left = self._shard.steps - self._start
        drawn = self._start + int(below(left, self._seed, number, np.array([epoch]))[0])
        self.step = drawn if self._replayed_epoch in (None, epoch) else NONE
        self._account.begin()
        self.content.begin(self._start)
        self.check_weights()

    def note(self, x: torch.Tensor, y: torch.Tensor, indices: Integers) -> None:
        """A batch arrives at the network."""
        self._account.note(indices)
        self.content.note(x, y, indices)

    def before(self, y: torch.Tensor) -> None:
        """Keep the state before a step that is replayed, whose batch arrived last."""
        self.content.audited(y, self._state.optimiser)
        self._snapshot.before()

    def close(self) -> None:
        """The epoch has ended: check its samples, replay the step, record checksums of the weights. Collective."""
        epoch = self._state.progress.epoch
        self.findings.wrong_epochs += self._account.differs(epoch, self._start)
        self.content.close(epoch, self._objective)
        if self.step != NONE:
            self._replay(epoch)
        self.record_checksums()

    def _replay(self, epoch: int) -> None:
        comparison = self._comparison(epoch)
        place = f"model {self._group.coordinates.group}, epoch {epoch + 1}, step {self.step + 1}"
        for measure in ("deviation", "lost"):
            value, where = getattr(comparison, measure)
            setattr(self.findings, measure, max(getattr(self.findings, measure), (value, f"{place}: {where}")))
        self.findings.replayed += 1

    def record_checksums(self) -> None:
        """Record checksums over the bits of weights, running statistics and optimiser state."""
        self._checksums = checksums(self._state.module, self._state.optimiser)

    def check_weights(self) -> None:
        """Count a change if the bits of weights, running statistics or optimiser state differ from the checksums."""
        if self._checksums is not None:
            self.findings.changed += not torch.equal(
                self._checksums, checksums(self._state.module, self._state.optimiser)
            )

    def _comparison(self, epoch: int) -> Comparison:
        augmented = self._loader.augmentation(
            self._seed, self._group.coordinates.group, epoch, self._shard, self.step, self.step + 1
        )
        ((x, y, _),) = self._loader([self._indices(epoch)], augmented)
        self.content.replayed(epoch, self.step, x, y)
        step = epoch * self._shard.steps + self.step
        gradients = self._snapshot.gradients(self._objective, x, y, step)
        tensors = self._snapshot.tensors(gradients, self._group.replicas)
        return compare_update(self._expected_step(step), tensors, OtherShards(self._group.shards, self._group.parts))

    def _indices(self, epoch: int) -> Integers:
        """Samples that this rank should have trained on in the replayed step."""
        return self._sampler.draw(self._order(epoch)(self._shard.step_positions(self.step)))

    def _order(self, epoch: int) -> Order:
        return self._loader.order(self._sampler, self._seed, epoch, self._group.divided.replicas)

    def _expected_step(self, step: int) -> Step:
        """The step (from 0, over all epochs) by the recipe."""
        return Step(
            rule=self._recipe.rule,
            rate=self._recipe.rate(step, self._shard.steps),
            number=step + 1 - self._snapshot.skipped_before,
            ranks=self._group.divided.replicas,
            rounding_allowance=self._rounding_allowance,
            skipped=self._snapshot.skipped,
        )

    def measured(self) -> Replay:
        """Findings of all models' trainings, the same on every active rank. Collective over these."""
        self.check_weights()
        return measured(self.findings, self._group)


def measured(findings: Findings, group: Group) -> Replay:
    """The findings of all active ranks, the same on each. Collective over these."""
    active, speaks = group.active, group.leader
    deviation, lost = (active.allreduce(worst, MPI.MAX) for worst in (findings.deviation, findings.lost))
    return Replay(
        steps=active.allreduce(findings.replayed * speaks),
        wrong_epochs=active.allreduce(findings.wrong_epochs * speaks),
        changed_ranks=active.allreduce(findings.changed),
        deviation=WorstRecord(value=deviation[0], where=deviation[1]),
        lost=WorstRecord(value=lost[0], where=lost[1]),
    )
