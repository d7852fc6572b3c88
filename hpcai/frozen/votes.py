"""Figures of an ensemble of classifiers, counted anew from what was kept of its evaluation: plain NumPy.

Kept is the class of each validation sample by each model and by all together (argmax of the summed softmax outputs),
and the class of each training sample by the models that did not train on it. Of at most MOST_VOTED samples of each
split, drawn from the system's entropy, the outputs of every model are kept as well, so that their votes can be counted
again. Where the classes need more than CLASSES_NBYTES, those of samples drawn in the same way are kept.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hpcai.frozen.philox import Integers, below, stream
from hpcai.frozen.samples import TRAINING, VALIDATION

CLASSES_NBYTES, OUTPUTS_NBYTES, MOST_VOTED = 2**25, 2**24, 1000
NOBODY = 2**16 - 1  # the class of a sample that was not evaluated
ROUNDING = 1e-9  # of a sum of outputs, in another order

TYPES = ("<u2", "<u2", "<u2", "<f4", "<u2", "<u2", "<f4", "|u1")  # of the tables, in their order

Classes = NDArray[np.uint16]
Outputs = NDArray[np.float32]


class Sampled(NamedTuple):
    """Which samples of a split are kept, int64[S], ascending; and places in these, int64[K], of those with outputs."""

    samples: Integers
    voted: Integers


class Ensemble(NamedTuple):
    """What is evaluated: models and classes, and the samples of both splits; none is out of the bag of one model."""

    models: int
    classes: int
    validation: int
    training: int

    def sampled(self, split: str, entropy: int) -> Sampled:
        """Which samples of a split are kept; entropy: 64 bits of the system's."""
        if split == TRAINING:
            return self._sampled(self.training if self.models > 1 else 0, 1, entropy, 0)
        return self._sampled(self.validation, self.models, entropy, 1)

    def _sampled(self, n: int, rows: int, entropy: int, number: int) -> Sampled:
        """rows: classes kept of a sample, of 2 bytes; outputs have 4 bytes."""
        samples = _drawn(n, CLASSES_NBYTES // (2 * rows), entropy, stream(number, 0))
        most = min(MOST_VOTED, OUTPUTS_NBYTES // (4 * self.models * self.classes))
        return Sampled(samples, _drawn(len(samples), most, entropy, stream(number, 1)))


def _drawn(n: int, most: int, entropy: int, number: int) -> Integers:
    """All of n if they are not more than `most`, else so many draws, each once, ascending."""
    return np.arange(n) if n <= most else np.unique(below(n, entropy, number, np.arange(most)))


class VoteTables(NamedTuple):
    """What is kept. S, K: validation samples, and those with outputs; T, L: training samples, of several models only.

    labels, together: uint16[S]. models: uint16[P, S]. outputs: float32[P, K, classes]. bag_labels, bag_together:
    uint16[T], NOBODY where every model trained on a sample. bag_outputs: float32[P, L, classes]. out: uint8[P, L], 1
    where a model did not train on a sample, by the second implementation of the bootstrap.
    """

    labels: Classes
    models: Classes
    together: Classes
    outputs: Outputs
    bag_labels: Classes
    bag_together: Classes
    bag_outputs: Outputs
    out: NDArray[np.uint8]


class Counted(NamedTuple):
    """Figures of the kept samples. wrong_votes: samples, or models of a sample, whose class is not that of the vote."""

    samples: int
    correct: int
    agreeing_pairs: int
    members_sum: int
    members_min: int
    members_max: int
    bag_samples: int
    bag_evaluated: int
    bag_correct: int
    voted: int
    wrong_votes: int


def layout(of: Ensemble, entropy: int) -> dict[str, tuple[str, tuple[int, ...]]]:
    """Type and shape of each table, by its name."""
    validation, training = (of.sampled(split, entropy) for split in (VALIDATION, TRAINING))
    kept, bag = len(validation.samples), len(training.samples)
    outputs, of_bag = ((of.models, len(each.voted), of.classes) for each in (validation, training))
    sizes = ((kept,), (of.models, kept), (kept,), outputs, (bag,), (bag,), of_bag, of_bag[:2])
    return dict(zip(VoteTables._fields, zip(TYPES, sizes, strict=True), strict=True))


def counted(found: VoteTables, of: Ensemble, entropy: int) -> Counted:
    """The figures of the kept samples."""
    validation, training = (of.sampled(split, entropy) for split in (VALIDATION, TRAINING))
    members = [int((classes == found.labels).sum()) for classes in found.models]
    evaluated = found.bag_together != NOBODY
    everybody = np.ones((of.models, len(validation.voted)), np.uint8)
    votes = (
        _wrong(found.together[validation.voted], found.outputs, everybody),
        _wrong(found.bag_together[training.voted], found.bag_outputs, found.out),
        sum(_others(classes[validation.voted], one) for classes, one in zip(found.models, found.outputs, strict=True)),
    )
    return Counted(
        samples=len(found.labels),
        correct=int((found.together == found.labels).sum()),
        agreeing_pairs=sum(_agreeing(found.models)),
        members_sum=sum(members),
        members_min=min(members),
        members_max=max(members),
        bag_samples=len(found.bag_labels),
        bag_evaluated=int(evaluated.sum()),
        bag_correct=int((evaluated & (found.bag_together == found.bag_labels)).sum()),
        voted=len(validation.voted) + len(training.voted),
        wrong_votes=sum(votes),
    )


def _agreeing(models: Classes) -> Iterator[int]:
    """Pairs of models with the same class, of each sample."""
    for column in models.T:
        _, counts = np.unique(column, return_counts=True)
        yield int((counts * (counts - 1) // 2).sum())


def _wrong(classes: Classes, outputs: Outputs, voting: NDArray[np.uint8]) -> int:
    """Samples whose class is not one with the largest sum of the voting models' outputs, or that nobody votes on.

    Samples of which some output is no number are left out.
    """
    sums = sum((one.astype(np.float64) * votes[:, None] for one, votes in zip(outputs, voting, strict=True)), 0.0)
    some = voting.any(0)
    other = (classes != NOBODY) != some
    known = np.all([np.isfinite(one).all(1) for one in outputs], 0)
    return int((known & (other | some & (_lacking(classes, np.asarray(sums)) > ROUNDING))).sum())


def _others(classes: Classes, outputs: Outputs) -> int:
    """Samples whose class by a model is not one with its largest output."""
    return int((_lacking(classes, outputs) > 0).sum())


def _lacking(classes: Classes, outputs: NDArray[np.floating]) -> NDArray[np.float64]:
    """How much less the output of a sample's class is than the largest; 0 where outputs are no numbers."""
    own = np.take_along_axis(outputs, np.minimum(classes, outputs.shape[-1] - 1)[..., None].astype(np.int64), -1)
    return np.nan_to_num(outputs.max(-1).astype(np.float64) - own[..., 0], nan=0.0, posinf=0.0)
