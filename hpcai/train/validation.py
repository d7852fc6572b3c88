"""Validation of one model by its group.

Each sample is evaluated by exactly one rank, checked by count and fingerprint.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from math import isfinite
from typing import TypeVar

import numpy as np
import torch
from mpi4py import MPI
from torch import nn
from torch.nn.functional import cross_entropy

from hpcai.comm.grid import Group
from hpcai.data.image_loader import Loader
from hpcai.data.order import ValidationShard, validation_indices
from hpcai.data.philox import Integers
from hpcai.formulas.sample_fingerprint import fingerprint
from hpcai.train.evaluation_content import EvaluationContent
from hpcai.train.state import CurvePoint
from hpcai.train.unchecked_content import Unchecked
from hpcai.watch import activity

Delivered = TypeVar("Delivered")


@dataclass(frozen=True)
class ValidationResult:
    """Sums of a validation over the group.

    counted, fingerprint: samples evaluated, and which (modulo 2^63). not_finite: outputs that are not finite numbers; a
    model has diverged even if that was in its last step. correct: samples classified correctly; average_precision: of
    each class, of detectors. loss: mean cross-entropy, of a validation with losses. bits and what follows: of language
    models, as in CurvePoint.
    """

    counted: int
    fingerprint: int
    not_finite: int
    correct: int | None = None
    average_precision: tuple[float | None, ...] | None = None
    loss: float | None = None
    bits: float | None = None
    predicted: int | None = None
    differences: float | None = None
    difference_squares: float | None = None

    def point(self, epoch: int, seconds: float, loss: float | None) -> CurvePoint:
        """The entry of the curve; `loss` is the training's, None where it is not finite."""
        # finite outputs may differ by more than exp takes
        finite = not self.not_finite and isfinite(self.loss or 0.0)
        counts = self.counted, self.fingerprint, self.correct, self.average_precision
        of_bits = self.bits, self.predicted, self.differences, self.difference_squares
        return CurvePoint(epoch, seconds, loss if finite else None, *counts, self.loss if finite else None, *of_bits)


def _never() -> bool:
    return False


def evaluated_together(
    batches: Iterable[Delivered], parts: MPI.Comm, stop: Callable[[], bool]
) -> Iterator[Delivered]:
    """Batches until one of the ranks that share a model has no more or stops; each batch needs all of them."""
    delivered = iter(batches)
    with activity.steps():
        while True:
            batch = next(delivered, None)
            ended = batch is None or stop()
            activity.beat()
            if parts.allreduce(int(ended), MPI.MAX) or batch is None:
                return
            yield batch


class Validation:
    """This rank's shard of the validation set, and the evaluation of a model on it; with `losses`, the loss as well."""

    def __init__(self, loader: Loader, shard: ValidationShard, device: torch.device, losses: bool = False) -> None:
        self.loader = loader
        self.shard = shard
        self.device = device
        self.content: EvaluationContent | Unchecked = Unchecked()
        self._loss_sum = torch.zeros((), dtype=torch.float64, device=device) if losses else None

    def warm_up(self, module: nn.Module) -> None:
        """Evaluate the first and the last batch, so that every shape has run once."""
        steps = sorted({0, self.shard.steps - 1}) if self.shard.steps else []
        self._evaluate(module, (self.shard.step_positions(step) for step in steps))
        if self._loss_sum is not None:
            self._loss_sum.zero_()

    def run(self, module: nn.Module, group: Group, stop: Callable[[], bool] = _never) -> ValidationResult:
        """Evaluate this rank's samples in evaluation mode and sum over the group. Collective.

        Ends early if `stop`, called before each batch, returns True; for all parts of a model if on any of them.
        """
        self.content.begin("validation")
        sums = np.array(self._evaluate(module, validation_indices(self.shard), group.parts, stop), np.uint64)
        sums *= np.uint64(group.counts)
        group.model.Allreduce(sums.copy(), sums)
        correct, counted, prints, not_finite = map(int, sums)
        return ValidationResult(counted, prints % (1 << 63), not_finite, correct, loss=self._mean_loss(group, counted))

    def _mean_loss(self, group: Group, counted: int) -> float | None:
        if self._loss_sum is None:
            return None
        total: float = group.model.allreduce(self._loss_sum.item() * group.counts)
        self._loss_sum.zero_()
        return total / max(counted, 1)

    @torch.inference_mode()
    def _evaluate(
        self,
        module: nn.Module,
        indices: Iterable[Integers],
        parts: MPI.Comm = MPI.COMM_SELF,
        stop: Callable[[], bool] = _never,
    ) -> tuple[int, int, int, int]:
        """Sums of this rank: correct, counted, fingerprint, not finite; of the samples that the loader delivered."""
        module.eval()
        correct, finite = torch.zeros(2, dtype=torch.int64, device=self.device)
        counted = outputs = prints = 0
        for x, y, delivered in evaluated_together(self.loader(indices), parts, stop):
            self.content.note(x, y)
            logits = module(x)
            classes = logits.argmax(1)
            correct += (classes == y).sum()
            self.content.predicted(classes, delivered)
            if self._loss_sum is not None:
                self._loss_sum += cross_entropy(logits, y, reduction="sum")
            finite += logits.isfinite().sum()
            counted, outputs, prints = counted + len(y), outputs + logits.numel(), prints + fingerprint(delivered)
        module.train()
        return int(correct), counted, prints % (1 << 63), outputs - int(finite)
