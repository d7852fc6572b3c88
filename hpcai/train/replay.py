"""Proofs that run beside the training: it took the samples of the epoch, and its steps are those of the recipe.

In the timed region a rank only copies: the indices of each batch, and in one step an epoch the weights and velocities.
All else happens between the epochs, outside that clock.
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
from hpcai.train.accounting import Account
from hpcai.train.objective import Objective
from hpcai.train.recipe import Recipe
from hpcai.train.replayed_step import Copies, sums
from hpcai.train.state import TrainingState
from hpcai.train.update_check import Comparison, Step, Worst, compare_update

NONE = -1


def noise(precision: str, kernels: str, compiled: bool = False) -> float:
    """Largest share of a tensor's gradient that a repetition may change.

    More where others compute than repeat it: compiled kernels, or those of `KERNELS`, but for int8 (`providers.lent`).
    """
    otherwise = compiled or (kernels != VENDOR and not PRECISIONS[precision].quantised)
    return PRECISIONS[precision].rounding * (4 if otherwise else 1)


@dataclass
class Findings:
    """What the proofs of one rank's training have found so far."""

    audited: int = 0  # steps
    deviation: Worst = (0.0, "")
    lost: Worst = (0.0, "")
    wrong_epochs: int = 0  # with other samples than theirs; the same on all ranks of the group
    changed: int = 0  # times that weights or statistics were not what the epoch before had left

    def add(self, others: "Findings") -> None:
        """Take in what was found in another training of this rank."""
        self.audited += others.audited
        self.wrong_epochs += others.wrong_epochs
        self.changed += others.changed
        self.deviation = max(self.deviation, others.deviation)
        self.lost = max(self.lost, others.lost)


class Proof:
    """The proofs of one rank's training. All methods but `note`, `before` and `after` are outside the timed region."""

    def __init__(
        self,
        state: TrainingState,
        recipe: Recipe,
        objective: Objective,
        sampler: Sampler,
        loader: Loader,
        group: Group,
        seed: int,
        noise: float,
        audited: int | None = None,
    ) -> None:
        """`audited`: the one epoch, from 0, of which a step is audited; None for all."""
        self._state, self._recipe, self._sampler, self._loader = state, recipe, sampler, loader
        self._objective, self._group, self._seed, self._noise = objective, group, seed, noise
        self._shard = Shard(sampler.size, group.coordinates.member, group.degree, recipe.batch)
        self._account = Account(sampler, group, recipe.batch, self._order)
        self._copies = Copies(state, recipe.rule)
        self._sealed: torch.Tensor | None = None
        self._start = 0
        self._audited = audited
        self.findings = Findings()
        self.step = 0  # of the epoch: the one that is audited, if any
        self.note = self._account.note
        self.before = self._copies.before
        self.after = self._copies.after

    def begin(self) -> None:
        """An epoch begins, or goes on: choose the step that is audited, a function of seed, model and epoch."""
        epoch, self._start = self._state.progress.epoch, self._state.progress.step
        number = stream(Purpose.AUDITED_STEP, self._group.coordinates.group)
        left = self._shard.steps - self._start
        drawn = self._start + int(below(left, self._seed, number, np.array([epoch]))[0])
        self.step = drawn if self._audited in (None, epoch) else NONE
        self._account.begin()
        self.check_weights()

    def close(self) -> None:
        """The epoch has ended: account for its samples, judge the audited step, seal the weights. Collective."""
        epoch = self._state.progress.epoch
        self.findings.wrong_epochs += self._account.differs(epoch, self._start)
        if self.step != NONE:
            self._audit(epoch)
        self.seal()

    def _audit(self, epoch: int) -> None:
        comparison = self._compared(epoch)
        place = f"model {self._group.coordinates.group}, epoch {epoch + 1}, step {self.step + 1}"
        for measure in ("deviation", "lost"):
            value, where = getattr(comparison, measure)
            setattr(self.findings, measure, max(getattr(self.findings, measure), (value, f"{place}: {where}")))
        self.findings.audited += 1

    def seal(self) -> None:
        """Keep sums over the bits of weights, running statistics and velocities."""
        self._sealed = sums(self._state.module, self._state.optimiser)

    def check_weights(self) -> None:
        """Note if weights, running statistics or velocities are not what they were when they were sealed."""
        if self._sealed is not None:
            self.findings.changed += not torch.equal(self._sealed, sums(self._state.module, self._state.optimiser))

    def _compared(self, epoch: int) -> Comparison:
        augmented = self._loader.augmentation(
            self._seed, self._group.coordinates.group, epoch, self._shard, self.step, self.step + 1
        )
        ((x, y, _),) = self._loader([self._indices(epoch)], augmented)
        step = epoch * self._shard.steps + self.step
        gradients = self._copies.gradients(self._objective, x, y, step)
        return compare_update(self._repeated(step), self._copies.tensors(gradients, self._group.model))

    def _indices(self, epoch: int) -> Integers:
        """What this rank's seat in the group was due in the audited step."""
        return self._sampler.draw(self._order(epoch)(self._shard.step_positions(self.step)))

    def _order(self, epoch: int) -> Order:
        return self._loader.order(self._sampler, self._seed, epoch, self._group.degree)

    def _repeated(self, step: int) -> Step:
        """The step (from 0, over all epochs) by the recipe."""
        return Step(
            rule=self._recipe.rule,
            rate=self._recipe.rate(step, self._shard.steps),
            number=step + 1 - self._copies.skipped_before,
            ranks=self._group.degree,
            noise=self._noise,
            skipped=self._copies.skipped,
        )

    def measured(self) -> Replay:
        """What was found in the trainings of all models, the same on every active rank. Collective over these."""
        self.check_weights()
        return measured(self.findings, self._group)


def measured(findings: Findings, group: Group) -> Replay:
    """What the ranks' proofs have found, the same on every active rank. Collective over these."""
    active, speaks = group.active, group.leader
    deviation, lost = (active.allreduce(worst, MPI.MAX) for worst in (findings.deviation, findings.lost))
    return Replay(
        steps=active.allreduce(findings.audited * speaks),
        wrong_epochs=active.allreduce(findings.wrong_epochs * speaks),
        changed_ranks=active.allreduce(findings.changed),
        deviation=WorstRecord(value=deviation[0], where=deviation[1]),
        lost=WorstRecord(value=lost[0], where=lost[1]),
    )
