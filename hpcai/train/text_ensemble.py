"""Evaluation of the ensemble of language models: the mean of P models' probabilities (HPC AI500 V3, bagging).

The P ranks that hold the same sequences send the probabilities of what followed, and their most likely bytes, to one of
them, a different one for each block of sequences.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch
from mpi4py import MPI
from numpy.typing import NDArray
from torch import nn

from hpcai.comm.grid import Group
from hpcai.comm.shutdown import Shutdown
from hpcai.data.bootstrap import Sampler
from hpcai.data.order import ValidationShard
from hpcai.data.philox import Integers
from hpcai.data.text.text_dataset import UNCOUNTED, VALUES
from hpcai.data.text.text_loader import Loader
from hpcai.formulas.sample_fingerprint import expected_fingerprint, fingerprint
from hpcai.frozen.samples import TRAINING
from hpcai.train.classifier_ensemble import blocks, in_bag
from hpcai.train.text_validation import MOST_BITS, Doubles, Sums, TextValidation, costs


class Together(NamedTuple):
    """Sums over all sequences of a split that some model evaluated; the same on every active rank.

    agreeing_pairs: pairs of models with the same most likely byte, over all predicted bytes. evaluated: sequences;
    miscounted: those evaluated too often or not at all, and 1 more if the fingerprint differs.
    """

    sums: Sums
    agreeing_pairs: int
    evaluated: int
    miscounted: int


@torch.inference_mode()
def evaluate(module: nn.Module, group: Group, validation: TextValidation, shutdown: Shutdown, split: str) -> Together:
    """Evaluate the ensemble on a split that is not trained on. Collective over all active ranks.

    If `shutdown` is requested, the rest is left out and the numbers are meaningless.
    """
    found, prints, shard = _Votes(group, validation), 0, validation.shard
    validation.content.begin("evaluation of all models together", split)
    for block, (x, y, indices) in _evaluated(module, validation.loader, shard, group, shutdown):
        validation.content.note(x, y)
        logits = module(x)
        chances, likely = np.exp2(-costs(logits, y)), logits.argmax(2).to(torch.uint8).cpu().numpy()
        found.add(block, chances, y.cpu().numpy(), indices, np.ones(len(y)))
        found.compare(block, likely, y.cpu().numpy())
        prints += fingerprint(indices)
    validation.content.close()
    together = found.over_all()
    every = group.active.allreduce(prints * group.counts) % (1 << 63)
    others = every != group.groups * expected_fingerprint(shard.n) % (1 << 63)
    return together._replace(miscounted=abs(together.evaluated - shard.n) + others)


@torch.inference_mode()
def evaluate_out_of_bag(
    module: nn.Module,
    group: Group,
    validation: TextValidation,
    training: Loader,
    sampler: Sampler,
    shutdown: Shutdown,
) -> Together | None:
    """Evaluate each training sequence by the models that did not train on it; None with one model. Collective."""
    if group.groups == 1:
        return None
    shard = ValidationShard(sampler.samples, group.place.replica, group.divided.replicas, validation.shard.batch)
    found, content = _Votes(group, TextValidation(training, shard)), validation.content
    content.begin("out of bag", TRAINING)
    for block, (x, y, indices) in _evaluated(module, training, shard, group, shutdown):
        content.note(x, y)
        out = (~in_bag(sampler, indices)).astype(np.float64)
        found.add(block, np.exp2(-costs(module(x), y)) * out[:, None], y.cpu().numpy(), indices, out)
    content.close()
    return found.over_all()


def _evaluated(
    module: nn.Module, loader: Loader, shard: ValidationShard, group: Group, shutdown: Shutdown
) -> Iterator[tuple[int, tuple[torch.Tensor, torch.Tensor, Integers]]]:
    """Numbered batches, with the module in evaluation mode."""
    module.eval()
    yield from blocks(loader, shard, group, shutdown)
    module.train()


class _Votes:
    """What this rank has found as the one that evaluates a block for all models."""

    def __init__(self, group: Group, validation: TextValidation) -> None:
        self._group, self._validation = group, validation
        self._sums = np.zeros(len(Sums._fields))
        self._pairs = self._evaluated = 0

    def add(self, block: int, chances: Doubles, y: Integers, indices: Integers, votes: Doubles) -> None:
        """Add sequences by the sum of all models' probabilities float64[n, S]; votes: 1 of those that count, else 0."""
        root = block % self._group.groups
        own = np.concatenate([chances, votes[:, None]], 1)
        total = np.empty_like(own) if self._group.across.rank == root else None
        self._group.across.Reduce(own, total, MPI.SUM, root)
        if total is None:
            return
        there = total[:, -1] > 0
        with np.errstate(divide="ignore"):
            bits = np.minimum(-np.log2(total[there, :-1] / total[there, -1:]), MOST_BITS)
        bits[y[there] == UNCOUNTED] = 0.0
        self._sums += self._validation.sums(bits.sum(1), y[there], indices[there])
        self._evaluated += int(np.count_nonzero(there))

    def compare(self, block: int, likely: NDArray[np.uint8], y: Integers) -> None:
        """Count pairs of models with the same most likely bytes uint8[n, S]."""
        across, root = self._group.across, block % self._group.groups
        every = np.empty((self._group.groups, *likely.shape), np.uint8) if across.rank == root else None
        across.Gather(np.ascontiguousarray(likely), every, root)
        if every is not None:
            for place, labels in enumerate(y):
                self._pairs += _agreeing(every[:, place, labels != UNCOUNTED])

    def over_all(self) -> Together:
        """The sums of all active ranks, the same on each. Collective."""
        active, counts = self._group.active, self._group.counts
        sums = active.allreduce(self._sums * counts)
        pairs, evaluated = (active.allreduce(value * counts) for value in (self._pairs, self._evaluated))
        return Together(Sums(*sums.tolist()), pairs, evaluated, 0)


def _agreeing(likely: NDArray[np.uint8]) -> int:
    """Pairs of rows of uint8[P, S] with equal bytes, over all places."""
    places = np.arange(likely.shape[1]) * VALUES
    counts = np.bincount((likely + places).ravel(), minlength=1)
    return int((counts * (counts - 1) // 2).sum())
