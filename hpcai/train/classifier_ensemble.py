"""Evaluation of the ensemble of classifiers: argmax of the mean of P models' softmax outputs (HPC AI500 V3, bagging).

The P ranks that hold the same samples sum their outputs on one of them, a different one for each block of samples. So
no rank holds more than one block of sums, whatever the number of models.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import zip_longest
from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from mpi4py import MPI
from torch import nn

from hpcai.comm.grid import Group
from hpcai.comm.shutdown import Shutdown
from hpcai.data.bootstrap import Sampler
from hpcai.data.image_loader import Loader
from hpcai.data.order import ValidationShard, validation_indices
from hpcai.data.philox import Integers
from hpcai.errors import DataError
from hpcai.formulas.sample_fingerprint import expected_fingerprint, fingerprint
from hpcai.frozen.samples import TRAINING
from hpcai.frozen.votes import NOBODY
from hpcai.train.kept_votes import KeptEvaluation, KeptVotes
from hpcai.train.validation import Validation
from hpcai.watch import activity

Outputs = npt.NDArray[np.float64]
Counts = npt.NDArray[np.uint64]
Delivered = TypeVar("Delivered")


class Block(NamedTuple):
    """A block of samples that one model has evaluated."""

    number: int
    probabilities: Outputs
    labels: Integers
    indices: Integers


@dataclass(frozen=True)
class Votes:
    """Ensemble counts, summed over all active ranks; the same on each."""

    correct: int  # validation samples that the ensemble classifies correctly
    agreeing_pairs: int  # pairs of models with the same class, summed over the validation samples
    # validation samples evaluated too often or not at all; 1 more if the fingerprint differs
    validation_miscounted: int
    bag_correct: int  # training samples classified correctly by the models that did not train on them
    bag_evaluated: int  # training samples that at least one model did not train on


@torch.inference_mode()
def evaluate(
    module: nn.Module,
    group: Group,
    validation: Validation,
    training: Loader,
    sampler: Sampler,
    shutdown: Shutdown,
    kept: KeptEvaluation,
) -> Votes:
    """Evaluate the ensemble on the validation set and, out of bag, on the training set that `sampler` draws from.

    `kept` receives the models' outputs and the classes by their votes, from which the counts are made again.
    If `shutdown` is requested, the remaining batches are left out and the counts are meaningless. Collective over all
    active ranks. Raises DataError on a rank whose loader delivers too few or too many batches.
    """
    module.eval()
    ensemble = _evaluated(module, group, validation, shutdown, kept.validation)
    out_of_bag = _evaluated_out_of_bag(module, group, training, sampler, validation, shutdown, kept.training)
    sums = np.concatenate([ensemble, out_of_bag])
    module.train()
    sums *= np.uint64(group.counts)
    group.active.Allreduce(sums.copy(), sums)
    correct, pairs, counted, prints, *bag = map(int, sums)
    samples = validation.shard.n
    others = prints % (1 << 63) != group.groups * expected_fingerprint(samples) % (1 << 63)
    return Votes(correct, pairs, abs(counted - samples) + others, *bag)


def _evaluated(module: nn.Module, group: Group, validation: Validation, shutdown: Shutdown, kept: KeptVotes) -> Counts:
    """Correct samples, agreeing pairs, samples evaluated, and the fingerprint of this rank's samples."""
    votes, prints = np.zeros(3, np.uint64), 0
    validation.content.begin("evaluation of all models together")
    for block, (x, y, indices) in blocks(validation.loader, validation.shard, group, shutdown):
        validation.content.note(x, y)
        probabilities = module(x).softmax(1).double().cpu().numpy()
        kept.note(indices, probabilities)
        votes += _vote(group, Block(block, probabilities, y.cpu().numpy(), indices), kept)
        prints += fingerprint(indices)
    validation.content.close()
    return np.append(votes, np.uint64(prints % (1 << 63)))


def _evaluated_out_of_bag(
    module: nn.Module,
    group: Group,
    training: Loader,
    sampler: Sampler,
    validation: Validation,
    shutdown: Shutdown,
    kept: KeptVotes,
) -> Counts:
    """Samples classified correctly out of bag and samples evaluated; both 0 with one model."""
    votes = np.zeros(2, np.uint64)
    if group.groups > 1:
        batch, content = validation.shard.batch, validation.content
        shard = ValidationShard(sampler.samples, group.place.replica, group.divided.replicas, batch)
        content.begin("out of bag", TRAINING)
        for block, (x, y, indices) in blocks(training, shard, group, shutdown):
            content.note(x, y)
            out, probabilities = ~in_bag(sampler, indices), module(x).softmax(1).double().cpu().numpy()
            kept.note(indices, probabilities)
            own = Block(block, probabilities * out[:, None], y.cpu().numpy(), indices)
            votes += _vote_out_of_bag(group, own, kept)
        content.close()
    return votes


def blocks(
    loader: Callable[[Iterable[Integers]], Iterable[Delivered]],
    shard: ValidationShard,
    group: Group,
    shutdown: Shutdown,
) -> Iterator[tuple[int, Delivered]]:
    """Numbered batches of this rank's part of a split; DataError if the number of batches is not the shard's.

    Without that check the other ranks of the block would wait forever. The ranks that evaluate a block together agree,
    block by block, on whether to stop.
    """
    with activity.steps():
        for block, batch in zip_longest(range(shard.steps), loader(validation_indices(shard))):
            if block is None or batch is None:
                many = "many" if batch else "few"
                raise DataError(f"too {many} batches to evaluate together; allowed: {shard.steps}")
            activity.beat()
            asked = group.across.allreduce(int(shutdown.poll()), MPI.MAX)
            if group.parts.allreduce(asked, MPI.MAX):  # all ranks that share a model take part in each block
                return
            yield block, batch


def in_bag(sampler: Sampler, samples: Integers) -> npt.NDArray[np.bool_]:
    """Whether a model trains on each of these samples, which are close to each other in the split."""
    first = int(samples[0])
    return sampler.in_bag(first, int(samples[-1]) + 1)[samples - first]


def _sum_once(group: Group, block: int, own: Outputs) -> Outputs | None:
    """The sum of the models' outputs for a block of samples, on the rank that evaluates this block.

    None on the others.
    """
    root = block % group.groups
    total = np.empty_like(own) if group.across.rank == root else None
    group.across.Reduce(own, total, MPI.SUM, root)
    return total


def _vote(group: Group, block: Block, kept: KeptVotes) -> Counts:
    classes = block.probabilities.shape[1]
    votes = np.eye(classes)[block.probabilities.argmax(1)]
    total = _sum_once(group, block.number, np.concatenate([block.probabilities, votes], 1))
    if total is None:
        return np.zeros(3, np.uint64)
    counts = total[:, classes:].astype(np.int64)
    chosen = total[:, :classes].argmax(1)
    kept.voted(block.indices, chosen)
    correct = np.count_nonzero(chosen == block.labels)
    return np.array([correct, (counts * (counts - 1) // 2).sum(), len(total)], np.uint64)


def _vote_out_of_bag(group: Group, block: Block, kept: KeptVotes) -> Counts:
    total = _sum_once(group, block.number, block.probabilities)
    if total is None:
        return np.zeros(2, np.uint64)
    evaluated = total.sum(1) > 0
    chosen = np.where(evaluated, total.argmax(1), NOBODY)
    kept.voted(block.indices, chosen)
    correct = np.count_nonzero((chosen == block.labels) & evaluated)
    return np.array([correct, np.count_nonzero(evaluated)], np.uint64)
