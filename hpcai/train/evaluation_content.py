"""Check of what arrives in evaluations: samples against their source, and the content of whole validations.

A pass evaluates a split in its own order, each sample on one rank. During it a rank copies a few samples, adds up a
hash of all, and keeps the predicted classes; they are compared after it, and counted anew.
"""

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from torch import Tensor

from hpcai.data.philox import Integers
from hpcai.frozen.samples import TEST, TRAINING, VALIDATION, Labelled
from hpcai.train.content_findings import ContentFindings
from hpcai.train.predictions import Predictions
from hpcai.train.sample_copies import ContentSum, Copied, SampleCopies
from hpcai.train.training_content import ModelInput

OF_ONE_MODEL = "validation"  # the name of the pass of one model over the validation split

if TYPE_CHECKING:
    from hpcai.comm.grid import Group


class EvaluationContent:
    """The check of one rank's passes over the validation split, and of the evaluation out of bag."""

    def __init__(
        self, given: ModelInput, validation_samples: int, findings: ContentFindings, test_samples: int = 0
    ) -> None:
        self._given, self.findings = given, findings
        self._sizes = {TRAINING: given.samples, VALIDATION: validation_samples, TEST: test_samples}
        self._copies, self._sum, self._predictions = SampleCopies(), ContentSum(), Predictions()
        self._split, self._step, self._name = "", -1, ""

    def begin(self, name: str, split: str = VALIDATION) -> None:
        """A pass of that name over a split begins; a pass that was not closed is forgotten."""
        self._split, self._step, self._name = split, -1, name
        self._copies.begin(0, self._samples(split), self._given.batch)
        self._sum.begin()
        if name == OF_ONE_MODEL:
            self._predictions.begin()

    def note(self, x: Tensor, y: Tensor) -> None:
        """The next batch arrives at the network; outside of passes, in a warm-up, memory is made for such batches."""
        if self._split:
            self._step += 1
            self._copies.note(self._step, x, y)
        else:
            self._copies.allocate(x, y)
        if self._split != TRAINING:
            self._sum.note(x, y)

    def predicted(self, classes: Tensor, indices: Integers) -> None:
        """Keep the classes that the network found for a batch, int64[n] on the device, and its samples."""
        if self._name == OF_ONE_MODEL and self._split:
            self._predictions.note(classes, indices)

    def classes_of(self, indices: Integers) -> Tensor | None:
        """The classes that the last validation found for a batch of these samples; None if it had no such batch."""
        return self._predictions.of(indices)

    def recount(self, reported: int | None, group: "Group") -> None:
        """Count the correct samples of the last validation anew, from what was kept; `reported` is the model's count.

        Collective over the group. Nothing is counted of detectors, nor where no second implementation knows the labels.
        """
        if reported is None or self._labels is None:
            return
        indices, classes = self._predictions.on_host()
        correct = np.count_nonzero(classes == self._labels[indices])
        recounted = int(group.model.allreduce(int(correct) * group.counts))
        self.findings.recount(reported, recounted)

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

    @cached_property
    def _labels(self) -> Integers | None:
        """The labels of all validation samples by the second implementation."""
        source, count = self._given.source, self._sizes[VALIDATION]
        return source.labels(VALIDATION, np.arange(count)) if isinstance(source, Labelled) else None

    def _samples(self, split: str) -> int:
        """Samples of a split that this rank evaluates."""
        return len(range(self._given.replica, self._sizes[split], self._given.replicas))

    def _index(self, one: Copied) -> int:
        number = one.step * self._given.batch + one.place
        return number * self._given.replicas + self._given.replica
