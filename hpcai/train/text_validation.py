"""Validation of a language model by its group: bits that the bytes of each sequence cost, and those by their source."""

from collections.abc import Callable, Iterable
from math import log
from typing import Any, NamedTuple

import numpy as np
import torch
from mpi4py import MPI
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from hpcai.comm.grid import Group
from hpcai.data.order import ValidationShard, validation_indices
from hpcai.data.philox import Integers
from hpcai.data.text.text_dataset import UNCOUNTED
from hpcai.data.text.text_loader import Loader
from hpcai.formulas.sample_fingerprint import fingerprint
from hpcai.formulas.score import LARGEST
from hpcai.train.evaluation_content import EvaluationContent
from hpcai.train.unchecked_content import Unchecked
from hpcai.train.validation import ValidationResult, evaluated_together

Doubles = NDArray[np.float64]
MOST_BITS = LARGEST  # of a sequence: stands for more, and for what is no number


class Sums(NamedTuple):
    """bits: of all predicted bytes; differences of sequences from their source's bits, and of their squares."""

    bits: float = 0.0
    predicted: float = 0.0
    differences: float = 0.0
    squares: float = 0.0


def never() -> bool:
    """Default of what stops an evaluation."""
    return False


class TextValidation:
    """This rank's shard of a split, and the evaluation of a model on it."""

    def __init__(self, loader: Loader, shard: ValidationShard) -> None:
        self.loader, self.shard = loader, shard
        self.content: EvaluationContent | Unchecked = Unchecked()

    def warm_up(self, module: nn.Module) -> None:
        """Evaluate the first and the last batch, so that every shape has run once."""
        steps = sorted({0, self.shard.steps - 1}) if self.shard.steps else []
        self._evaluate(module, (self.shard.step_positions(step) for step in steps))

    def run(self, module: nn.Module, group: Group, stop: Callable[[], bool] = never) -> ValidationResult:
        """Evaluate this rank's sequences in evaluation mode and sum over the group. Collective.

        Ends early if `stop`, called before each batch, returns True.
        """
        self.content.begin("validation")
        indices, sums, not_finite = self._evaluate(module, validation_indices(self.shard), group.parts, stop)
        counts = np.array([len(indices), fingerprint(indices), not_finite], np.uint64) * np.uint64(group.counts)
        group.model.Allreduce(counts.copy(), counts)
        counted, prints, infinite = map(int, counts)
        named: Any = self.named(Sums(*group.model.allreduce(np.array(sums) * group.counts).tolist()))
        return ValidationResult(counted, prints % (1 << 63), infinite, **named)

    def named(self, sums: Sums) -> dict[str, float | None]:
        """Sums by the names of a curve's entry; no differences where the source is not known."""
        known = self.loader.split.bits(np.empty(0, np.int64)) is not None
        return {
            "bits": sums.bits,
            "predicted": int(sums.predicted),
            "differences": sums.differences if known else None,
            "difference_squares": sums.squares if known else None,
        }

    @torch.inference_mode()
    def _evaluate(
        self,
        module: nn.Module,
        batches: Iterable[Integers],
        parts: MPI.Comm = MPI.COMM_SELF,
        stop: Callable[[], bool] = never,
    ) -> tuple[Integers, Sums, int]:
        """Sequences that the loader delivered, their sums, and the number of outputs that are not finite."""
        module.eval()
        found, sums, not_finite = [np.empty(0, np.int64)], np.zeros(len(Sums._fields)), 0
        for x, y, delivered in evaluated_together(self.loader(batches), parts, stop):
            self.content.note(x, y)
            logits = module(x)
            self.content.predicted(logits.argmax(2).to(torch.uint8), delivered)
            sums += self.sums(costs(logits, y).sum(1), y.cpu().numpy(), delivered)
            not_finite += logits.numel() - int(logits.isfinite().sum())
            found.append(delivered)
        module.train()
        return np.concatenate(found), Sums(*sums.tolist()), not_finite

    def sums(self, bits: Doubles, y: Integers, indices: Integers) -> Doubles:
        """The sums of some sequences by the bits of each, in the order of `Sums`."""
        source = self.loader.split.bits(indices)
        apart = bits - source if source is not None else np.zeros(1)
        return np.array([bits.sum(), np.count_nonzero(y != UNCOUNTED), apart.sum(), np.square(apart).sum()])


def costs(logits: Tensor, y: Tensor) -> Doubles:
    """-log2 of the probability of each byte y int64[n, S] by logits [n, S, bytes]; 0 of those that do not count."""
    nats = cross_entropy(logits.float().transpose(1, 2), y, reduction="none", ignore_index=UNCOUNTED)
    found: Doubles = nats.double().cpu().numpy() / log(2)
    return np.nan_to_num(found, nan=MOST_BITS, posinf=MOST_BITS)
