"""Check of what arrives in evaluations: samples against their source, and the content of whole validations.

A pass evaluates a split in its own order, each sample on one rank. During it a rank copies a few samples and adds up a
hash of all; they are compared after it.
"""

import numpy as np
from torch import Tensor

from hpcai.frozen.samples import TRAINING, VALIDATION
from hpcai.train.content_findings import ContentFindings
from hpcai.train.sample_copies import ContentSum, Copied, SampleCopies
from hpcai.train.training_content import ModelInput


class EvaluationContent:
    """The check of one rank's passes over the validation split, and of the evaluation out of bag."""

    def __init__(self, given: ModelInput, validation_samples: int, findings: ContentFindings) -> None:
        self._given, self.findings = given, findings
        self._sizes = {TRAINING: given.samples, VALIDATION: validation_samples}
        self._copies, self._sum = SampleCopies(), ContentSum()
        self._split, self._step, self._name = "", -1, ""

    def begin(self, name: str, split: str = VALIDATION) -> None:
        """A pass of that name over a split begins; a pass that was not closed is forgotten."""
        self._split, self._step, self._name = split, -1, name
        self._copies.begin(0, self._samples(split), self._given.batch)
        self._sum.begin()

    def note(self, x: Tensor, y: Tensor) -> None:
        """The next batch arrives at the network; outside of passes, in a warm-up, memory is made for such batches."""
        if self._split:
            self._step += 1
            self._copies.note(self._step, x, y)
        else:
            self._copies.allocate(x, y)
        if self._split != TRAINING:
            self._sum.note(x, y)

    def close(self) -> None:
        """The pass has ended, whole: compare what it saw with the source and with the passes before."""
        split, self._split = self._split, ""
        if split == VALIDATION:
            self.findings.saw(self._sum.value())
        taken, source = self._copies.taken(), self._given.source
        if source is None or not taken:
            return
        samples = source.read(split, np.array([self._index(one) for one in taken], np.int64), None)
        for one, sample in zip(taken, samples, strict=True):
            where = f"model {self._given.model}, {self._name}, step {one.step + 1}, sample {one.place + 1}"
            self.findings.compare(sample, one.top, one.x, one.y, where)

    def _samples(self, split: str) -> int:
        """Samples of a split that this rank evaluates."""
        return len(range(self._given.replica, self._sizes[split], self._given.replicas))

    def _index(self, one: Copied) -> int:
        number = one.step * self._given.batch + one.place
        return number * self._given.replicas + self._given.replica
