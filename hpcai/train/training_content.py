"""Check of what arrives in the steps of a training: samples, order and recipe, against second implementations.

They know the input, and nothing of the training's own objects. In the timed region a rank copies a few samples of an
epoch and keeps the indices of a few batches; everything else happens between epochs.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from hpcai.frozen import order, recipe
from hpcai.frozen.bootstrap import bag
from hpcai.frozen.philox import Integers
from hpcai.frozen.recipe import Settings
from hpcai.frozen.samples import TRAINING, Source
from hpcai.train.content_findings import ContentFindings
from hpcai.train.objective import Objective
from hpcai.train.recipe_check import RecipeCheck
from hpcai.train.sample_copies import SampleCopies

REPLAYED_NBYTES = 1 << 18  # of samples of a replayed batch that are compared with their source


@dataclass(frozen=True)
class ModelInput:
    """What the input says of one model, and this rank's replica of it.

    settings: of the case. samples, classes: of the training set. models: that bootstrap; 1 where all are taken.
    source: reads samples anew; None where no second implementation knows the data.
    """

    settings: Settings
    model: int
    models: int
    replica: int
    samples: int
    classes: int
    source: Source | None

    @property
    def seed(self) -> int:
        """The test's seed."""
        return int(self.settings["SEED"])

    @property
    def batch(self) -> int:
        """Samples of a replica in a full step."""
        return recipe.batch(self.settings)

    @property
    def replicas(self) -> int:
        """Replicas of the model."""
        return recipe.replicas(self.settings)


class TrainingContent:
    """The check of one rank's training. Only `note` and `audited` are called in the timed region."""

    def __init__(self, given: ModelInput, findings: ContentFindings) -> None:
        self._given, self.findings = given, findings
        self._draws, self._sample_of = bag(
            str(given.settings.get("SAMPLER", "")), given.samples, given.seed, given.model, given.models
        )
        self._copies, self._recipe = SampleCopies(), RecipeCheck(given.settings, self._draws, given.classes)
        self._step = 0
        self._kept: dict[int, Integers] = {}  # delivered indices by step
        self._latest = np.empty(0, np.int64)
        self._block_epoch, self._laid_out = -1, np.empty(0, np.int64)

    def allocate(self, x: Tensor, y: Tensor) -> None:
        """Make the memory of the copies, for batches like x and y."""
        self._copies.allocate(x, y)

    def begin(self, step: int) -> None:
        """An epoch begins, or goes on with a step of it."""
        given, self._step, self._kept = self._given, step - 1, {}
        self._copies.begin(step, order.samples_of_rank(self._draws, given.replicas, given.batch), given.batch)
        self._chosen = self._copies.steps

    def note(self, x: Tensor, y: Tensor, indices: Integers) -> None:
        """The next batch arrives at the network."""
        self._step, self._latest = self._step + 1, indices
        if self._step in self._chosen:
            self._kept[self._step] = indices
            self._copies.note(self._step, x, y)

    def audited(self, y: Tensor, optimiser: torch.optim.Optimizer) -> None:
        """The step of the batch that arrived last is audited: keep its indices and the optimiser's options."""
        self._kept[self._step] = self._latest
        self._recipe.note(self._step, len(y), optimiser)

    def close(self, epoch: int, end: int, objective: Objective) -> None:
        """The epoch (from 0) has ended, or is cut before step `end`: compare what was kept."""
        for step, value, what in self._recipe.deviations(epoch, objective):
            self.findings.steps += 1
            self.findings.recipe = max(self.findings.recipe, (value, f"{self._where(epoch, step)}: {what}"))
        self._compare_order(epoch)
        self._compare_copies(epoch, end)

    def _compare_order(self, epoch: int) -> None:
        """Compare the indices of the kept batches with the second implementation's, drawn at once."""
        positions = [self._positions(step) for step in self._kept]
        every = self._expected(epoch, np.concatenate([np.empty(0, np.int64), *positions]))
        ends = np.cumsum([len(each) for each in positions])
        for indices, expected in zip(self._kept.values(), np.split(every, ends[:-1]), strict=False):
            common = min(len(indices), len(expected))
            wrong = np.count_nonzero(indices[:common] != expected[:common])
            self.findings.positions += len(expected)
            self.findings.misplaced += int(wrong) + abs(len(indices) - len(expected))

    def _compare_copies(self, epoch: int, end: int) -> None:
        source, taken = self._given.source, [one for one in self._copies.taken() if one.step < end]
        if source is None or not taken:
            return
        positions = np.array([self._positions(one.step)[one.place] for one in taken], np.int64)
        samples = source.read(TRAINING, self._expected(epoch, positions), self._augmented(source, epoch, positions))
        for one, sample in zip(taken, samples, strict=True):
            where = f"{self._where(epoch, one.step)}, sample {one.place + 1}"
            self.findings.compare(sample, one.top, one.x, one.y, where)

    def replayed(self, epoch: int, step: int, x: Tensor, y: Tensor) -> None:
        """Compare a batch that was loaded again for a replay with its source; of large samples a few."""
        source, positions = self._given.source, self._positions(step)
        if source is None or len(x) != len(positions):
            return  # a batch of another size has another recipe
        count = min(len(x), max(1, REPLAYED_NBYTES // (x[0].numel() * x.element_size())))
        chosen = np.sort(np.random.default_rng().permutation(len(x))[:count])
        kept = positions[chosen]
        samples = source.read(TRAINING, self._expected(epoch, kept), self._augmented(source, epoch, kept))
        rows = torch.from_numpy(chosen).to(x.device)
        values, labels = x[rows].cpu().numpy(), y[rows].cpu().numpy()
        for place, sample in enumerate(samples):
            where = f"{self._where(epoch, step)}, sample {chosen[place] + 1}, replayed"
            self.findings.compare(sample, 0, values[place], labels[place], where)

    def _where(self, epoch: int, step: int) -> str:
        return f"model {self._given.model}, epoch {epoch + 1}, step {step + 1}"

    def _positions(self, step: int) -> Integers:
        """Positions in the epoch of this rank's samples of a step."""
        given = self._given
        return order.positions_of_step(step, self._draws, given.replica, given.replicas, given.batch)

    def _augmented(self, source: Source, epoch: int, positions: Integers) -> Integers | None:
        return source.augmented(self._given.seed, self._given.model, epoch * self._draws + positions)

    def _expected(self, epoch: int, positions: Integers) -> Integers:
        """The samples at positions of an epoch."""
        if self._begins is None:
            return self._sample_of(order.ordered(positions, self._draws, self._given.seed, epoch))
        return self._sample_of(self._by_blocks(self._begins, epoch)[positions])

    @cached_property
    def _begins(self) -> Integers | None:
        return self._given.source.block_begins() if self._given.source else None

    def _by_blocks(self, begins: Integers, epoch: int) -> Integers:
        """The draws of an epoch in the order of blocks; the last epoch's are kept."""
        if self._block_epoch != epoch:
            drawn = self._sample_of(np.arange(self._draws))
            self._laid_out = order.by_blocks(drawn, begins, self._given.seed, epoch, self._given.replicas)
            self._block_epoch = epoch
        return self._laid_out
