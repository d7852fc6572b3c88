"""The ensemble as one predictor: the mean of the P models' softmax outputs (HPC AI500 V3, bagging).

Predictions meet block by block: the P ranks that hold the same samples add their outputs up on one of them, a
different one for each block. So no rank ever holds more than one block of sums, however many models there are.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from mpi4py import MPI
from torch import nn
from torch.nn.functional import one_hot

from hpcai.comm.grid import Group
from hpcai.data.bootstrap import Sampler
from hpcai.data.loader import Loader
from hpcai.data.order import ValidationShard, validation_indices
from hpcai.train.evaluate import Validation

Outputs = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Verdicts:
    """Sums over all active ranks, equal on all of them."""

    correct: int  # validation samples that the ensemble judges right
    agreeing_pairs: int  # pairs of models that agree, summed over the validation samples
    bag_correct: int  # training samples judged right by the models that did not train on them
    bag_judged: int  # training samples that at least one model did not train on


@torch.inference_mode()
def judge(module: nn.Module, group: Group, validation: Validation, training: Loader, sampler: Sampler) -> Verdicts:
    """Judge the ensemble on the validation set and, out of bag, on the training set that `sampler` draws from.

    Collective over all active ranks.
    """
    module.eval()
    sums = np.zeros(4, np.int64)
    for block, (probabilities, labels) in enumerate(_outputs(module, validation.loader, validation.shard)):
        sums[:2] += _vote(group, block, probabilities, labels)
    if group.groups > 1:
        shard = ValidationShard(sampler.samples, group.seat.member, group.degree, validation.shard.batch)
        for block, (probabilities, labels) in enumerate(_outputs(module, training, shard, sampler)):
            sums[2:] += _vote_out_of_bag(group, block, probabilities, labels)
    module.train()
    group.active.Allreduce(sums.copy(), sums)
    return Verdicts(*map(int, sums))


def _outputs(
    module: nn.Module, loader: Loader, shard: ValidationShard, sampler: Sampler | None = None
) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Softmax outputs and labels of this rank's part of a split; with a sampler, outputs of its own samples are 0."""
    for step, (x, y) in enumerate(loader(validation_indices(shard))):
        probabilities = module(x).softmax(1).double()
        if sampler is not None:
            out = torch.from_numpy(~_in_bag(sampler, shard.step_positions(step))).to(probabilities.device)
            probabilities *= out[:, None]
        yield probabilities, y


def _in_bag(sampler: Sampler, samples: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    first = int(samples[0])
    return sampler.in_bag(first, int(samples[-1]) + 1)[samples - first]


def _sum_once(group: Group, block: int, outputs: torch.Tensor) -> Outputs | None:
    """The sum of the models' outputs for a block of samples, on the rank whose turn it is; None on the others."""
    own = outputs.cpu().numpy()
    root = block % group.groups
    total = np.empty_like(own) if group.across.rank == root else None
    group.across.Reduce(own, total, MPI.SUM, root)
    return total


def _vote(group: Group, block: int, probabilities: torch.Tensor, labels: torch.Tensor) -> npt.NDArray[np.int64]:
    classes = probabilities.shape[1]
    votes = one_hot(probabilities.argmax(1), classes)
    total = _sum_once(group, block, torch.cat([probabilities, votes.double()], 1))
    if total is None:
        return np.zeros(2, np.int64)
    counts = total[:, classes:].astype(np.int64)
    correct = np.count_nonzero(total[:, :classes].argmax(1) == labels.cpu().numpy())
    return np.array([correct, (counts * (counts - 1) // 2).sum()])


def _vote_out_of_bag(
    group: Group, block: int, probabilities: torch.Tensor, labels: torch.Tensor
) -> npt.NDArray[np.int64]:
    total = _sum_once(group, block, probabilities)
    if total is None:
        return np.zeros(2, np.int64)
    judged = total.sum(1) > 0
    return np.array([np.count_nonzero((total.argmax(1) == labels.cpu().numpy()) & judged), np.count_nonzero(judged)])
