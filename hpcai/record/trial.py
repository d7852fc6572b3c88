"""The record of a trial of a search, as the journal (history.jsonl) and the result file hold it.

Times are in seconds from the beginning of the search. Operations and samples are those of all ranks of the group;
seconds of training, validation and warm-up are those of the group's first rank.
"""

from typing import Annotated, Literal, get_args

from msgspec import Meta

from hpcai.networks.morphism import KernelSize, Morphism, MorphismKind
from hpcai.record.record import Count, NonNegative, Positive, Record, Seconds, Sha256, about

MOST_MORPHISMS = 10_000
Completed = Literal["planned", "patience"]  # ends after which the weights are kept: the trial can be a parent
Failed = Literal["diverged", "memory", "lost"]  # ends after which the trial has no value
End = Literal[Completed, "time", Failed]
Operation = Literal["initial", MorphismKind]
COMPLETED: tuple[str, ...] = get_args(Completed)
FAILED: tuple[str, ...] = get_args(Failed)
ENDS: tuple[End, ...] = get_args(End)


class Hyperparameters(Record):
    """The hyper-parameters of a trial."""

    batch: Annotated[Positive, about("samples of a training step on one rank")]
    kernel: Annotated[KernelSize, about("side of the kernels of convolutions that morphisms added")]


class CurveEntry(Record):
    """One epoch of a trial; an epoch that the end of the search cut has no validation."""

    epoch: Annotated[Positive, about("number of the epoch, from 1")]
    seconds: Annotated[Seconds, about("time at which its validation ended", unit="s")]
    loss: Annotated[NonNegative | None, about("mean training loss; null where it is not finite")]
    validation_loss: Annotated[NonNegative | None, about("mean validation loss; null where it is not finite")]
    samples: Annotated[Count, about("training samples, without those of skipped steps")]
    skipped: Annotated[Count, about("training samples of steps skipped because gradients overflowed")]
    correct: Annotated[Count | None, about("validation samples classified correctly; null if cut")]
    counted: Annotated[Count, about("validation samples evaluated")]
    fingerprint: Annotated[Count, about("fingerprint of the validation samples evaluated, modulo 2^63")]

    @property
    def accuracy(self) -> float | None:
        """Share of the validation samples classified correctly; None if not validated, 0 if the loss is not finite."""
        if self.correct is None or self.counted == 0:
            return None
        return 0.0 if self.loss is None else self.correct / self.counted


class Trial(Record):
    """One trial: its network and hyper-parameters, what was measured in its epochs, and why it ended."""

    id: Annotated[Positive, about("(round - 1) x groups + worker + 1")]
    worker: Annotated[Count, about("the group that ran the trial, from 0")]
    round: Annotated[Positive, about("number of this trial among its group's")]
    parent: Annotated[Positive | None, about("trial whose network was morphed; null for the initial network")]
    operation: Annotated[Operation, about("kind of the first morphism, or initial")]
    morphisms: Annotated[
        tuple[Morphism, ...],
        Meta(max_length=MOST_MORPHISMS),
        about("morphisms from the parent's network to this one, in order"),
    ]
    hyperparameters: Annotated[Hyperparameters, about("hyper-parameters")]
    given: Annotated[Seconds, about("time at which the coordinator granted the trial", unit="s")]
    started: Annotated[Seconds, about("time at which the group began it", unit="s")]
    returned: Annotated[Seconds, about("time at which the group reported its end", unit="s")]
    planned_epochs: Annotated[Positive, about("epochs planned for the round")]
    steps: Annotated[Count, about("optimiser steps, skipped ones included")]
    executed_operations: Annotated[Count, about("operations counted while the layers ran", unit="FLOP")]
    curve: Annotated[tuple[CurveEntry, ...], about("one entry for each epoch")]
    training_seconds: Annotated[Seconds, about("seconds of training", unit="s")]
    validation_seconds: Annotated[Seconds, about("seconds of validation", unit="s")]
    warmup_seconds: Annotated[Seconds, about("seconds of set-up and warm-up", unit="s")]
    deviation: Annotated[float, about("largest |child(x) - parent(x)| / max |parent(x)| before training, in float64")]
    nbytes: Annotated[Count, about("peak memory of a rank, measured", unit="B")]
    planned_bytes: Annotated[Count, about("peak memory of a rank, estimated", unit="B")]
    end: Annotated[End, about("why the trial ended")]
    weights_sha256: Annotated[
        Sha256 | None, about("SHA-256 of the file of weights, as it was written; null where there is none")
    ] = None
    parent_sha256: Annotated[
        Sha256 | None,
        about("SHA-256 of the file of the parent's weights, as it was read; null where none was, and in older results"),
    ] = None

    @property
    def samples(self) -> int:
        """Training samples credited to the trial."""
        return sum(entry.samples for entry in self.curve)

    @property
    def skipped(self) -> int:
        """Training samples of steps that were skipped because gradients overflowed."""
        return sum(entry.skipped for entry in self.curve)

    @property
    def accuracies(self) -> list[float]:
        """Validation accuracies of its epochs; the last epoch may have been cut before its validation."""
        return [accuracy for entry in self.curve if (accuracy := entry.accuracy) is not None]

    @property
    def accuracy(self) -> float:
        """The best validation accuracy; 0 if the trial was never validated."""
        return max(self.accuracies, default=0.0)
