"""The ensemble's evaluation, compared with an evaluation of all outputs in one place."""

from dataclasses import replace
from itertools import cycle, islice
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from tiny import CPU, Numbered, Table, alone, repeating, unending

from hpcai.comm.grid import Group, split
from hpcai.data import bootstrap
from hpcai.data.order import ValidationShard
from hpcai.errors import DataError
from hpcai.frozen.samples import TRAINING, VALIDATION
from hpcai.frozen.votes import Ensemble, VoteTables, counted
from hpcai.train.classifier_ensemble import Votes, evaluate
from hpcai.train.kept_votes import KeptEvaluation, KeptVotes
from hpcai.train.validation import Validation

CLASSES, SEED = 4, 3
Array = npt.NDArray[Any]


class Watched:
    """A communicator that records the blocks given to Reduce and their receivers."""

    def __init__(self, comm: Any) -> None:
        self.comm, self.rank = comm, comm.rank
        self.sizes: list[int] = []
        self.roots: list[int] = []

    def Reduce(self, own: Array, total: Array | None, operation: Any, root: int) -> None:  # noqa: N802, mpi4py's name
        assert (total is None) == (root != self.rank)
        self.sizes.append(own.size)
        self.roots.append(root)
        self.comm.Reduce(own, total, operation, root)

    def allreduce(self, value: int, operation: Any) -> int:
        return int(self.comm.allreduce(value, operation))


def logits(group: int, half: int, n: int) -> Array:
    """The outputs of model `group`; the same on every rank."""
    return np.random.default_rng([group, half, n]).standard_normal((n, CLASSES)).astype(np.float32)


def in_one_place(groups: int, halves: list[Numbered], samplers: list[bootstrap.Sampler]) -> Votes:
    """The evaluation by definition: all outputs of all models in one array."""
    outputs = [
        np.stack([torch.from_numpy(logits(g, half, len(split))).softmax(1).double().numpy() for g in range(groups)])
        for half, split in enumerate(halves)
    ]
    votes = outputs[0].argmax(2)
    pairs = sum((votes[i] == votes[j]).sum() for i in range(groups) for j in range(i))
    correct = (outputs[0].mean(0).argmax(1) == halves[0].classes).sum()
    if groups == 1:
        return Votes(correct, 0, 0, 0, 0)
    out = np.ones((groups, len(halves[1])), bool)
    for model, sampler in enumerate(samplers):
        out[model, sampler.draw(np.arange(sampler.size))] = False
    evaluated = out.any(0)
    bag = (outputs[1] * out[:, :, None]).sum(0).argmax(1) == halves[1].classes
    return Votes(correct, pairs, 0, (bag & evaluated).sum(), evaluated.sum())


@pytest.mark.slow
@pytest.mark.parallel(4)
def test_evaluation_equals_that_of_all_outputs_in_one_place() -> None:
    from mpi4py import MPI

    world, random = MPI.COMM_WORLD, np.random.default_rng(1)
    shapes = [(p, q) for p in range(1, world.size + 1) for q in range(1, world.size // p + 1)]
    for number, (groups, degree) in enumerate(shapes):
        kind, mapping = ("multinomial", "poisson")[number % 2], ("row", "column")[number // 2 % 2]
        # numbers of blocks that do not divide evenly, the last block smaller, some ranks with one block fewer
        validation, training, batch = 13 * degree + 1, 11 * degree + degree // 2, 4
        halves = [Numbered(half, random.integers(0, CLASSES, n)) for half, n in enumerate((validation, training))]
        group = split(world, groups, degree, mapping)
        if group is None:
            continue
        samplers = [bootstrap.sampler(kind, training, SEED, member, groups) for member in range(groups)]
        watched = Watched(group.across)
        own, member = group.coordinates.group, group.coordinates.member
        model = Table(logits(own, 0, validation), logits(own, 1, training))
        evaluated = Validation(halves[0].loader(batch), ValidationShard(validation, member, degree, batch), CPU)
        model.train()
        among = replace(group, across=watched)
        kept = keeping(validation, training, groups)
        found = evaluate(model, among, evaluated, halves[1].loader(batch), samplers[own], unending(), kept)
        assert found == in_one_place(groups, halves, samplers), (groups, degree, kind)
        assert group.active.allgather(found) == [found] * groups * degree
        _check_kept(group, kept, found, halves, samplers)
        assert model.training
        # no rank holds more than one block, and ranks alternate in receiving one
        assert max(watched.sizes) <= 2 * batch * CLASSES
        assert watched.roots == [block % groups for block in _blocks(evaluated.shard, training, groups)]
        assert sorted(group.model.allreduce(halves[0].read)) == list(range(validation))
        _check_repeated(group)
        _check_blown(group)
        group.free()


def keeping(validation: int, training: int, groups: int) -> KeptEvaluation:
    """What keeps all samples of such splits."""
    of = Ensemble(groups, CLASSES, validation, training)
    return KeptEvaluation(*(KeptVotes(of.sampled(split, 0), CLASSES) for split in (VALIDATION, TRAINING)))


def _check_kept(
    group: Group, kept: KeptEvaluation, votes: Votes, halves: list[Numbered], samplers: list[bootstrap.Sampler]
) -> None:
    """The figures counted anew on the first rank, from what all ranks have kept, are those of the evaluation."""
    (one, other), labels = kept, [half.classes.astype(np.uint16) for half in halves]
    parts = [one.models(group), one.together(group), one.outputs(group), other.together(group), other.outputs(group)]
    assert all((part is None) == (group.active.rank > 0) for part in parts)
    if group.active.rank:
        return
    models, together, outputs, bag_together, bag_outputs = parts
    bags = [sampler.in_bag(0, len(labels[1])) for sampler in samplers]
    out = ~np.stack(bags) if group.groups > 1 else np.zeros((1, 0), np.bool_)
    bag_labels = labels[1] if group.groups > 1 else labels[1][:0]
    tables: Any = (labels[0], models, together, outputs, bag_labels, bag_together, bag_outputs, out.astype(np.uint8))
    of = Ensemble(group.groups, CLASSES, len(labels[0]), len(labels[1]))
    again = counted(VoteTables(*tables), of, 0)
    assert (again.correct, again.agreeing_pairs, again.wrong_votes) == (votes.correct, votes.agreeing_pairs, 0)
    assert (again.bag_correct, again.bag_evaluated) == (votes.bag_correct, votes.bag_evaluated)
    assert again.voted == len(labels[0]) + len(bag_labels)


def _blocks(shard: ValidationShard, training: int, groups: int) -> list[int]:
    out_of_bag = replace(shard, n=training).steps if groups > 1 else 0
    return [*range(shard.steps), *range(out_of_bag)]


def _check_repeated(group: Group) -> None:
    """Every rank of a model evaluates the first one's samples, or one batch twice."""
    n = 12 * group.degree
    halves = [Numbered(half, np.zeros(n, np.int64)) for half in (0, 1)]
    model, whole = Table(*2 * [logits(0, 0, n)]), bootstrap.sampler("multinomial", n, SEED, 0, 1)

    def miscounted(loader: Any, rank: int) -> int:
        evaluated = Validation(loader, ValidationShard(n, rank, group.degree, 4), CPU)
        kept = keeping(n, n, group.groups)
        return evaluate(model, group, evaluated, halves[1].loader(4), whole, unending(), kept).validation_miscounted

    assert miscounted(halves[0].loader(4), group.coordinates.member) == 0
    assert miscounted(halves[0].loader(4), 0) == (0 if group.degree == 1 else 1)
    assert miscounted(repeating(halves[0].loader(4)), group.coordinates.member) == 1


def _check_blown(group: Group) -> None:
    """One model whose outputs are not numbers does not stop the others."""
    n = 9
    halves = [Numbered(half, np.zeros(n, np.int64)) for half in (0, 1)]
    model = Table(*2 * [np.full((n, CLASSES), np.nan if group.coordinates.group == 0 else 1.0, np.float32)])
    evaluated = Validation(halves[0].loader(4), ValidationShard(n, group.coordinates.member, group.degree, 4), CPU)
    draws = bootstrap.sampler("multinomial", n, SEED, group.coordinates.group, group.groups)
    kept = keeping(n, n, group.groups)
    found = evaluate(model, group, evaluated, halves[1].loader(4), draws, unending(), kept)
    assert found.bag_correct <= found.bag_evaluated <= n
    assert found.validation_miscounted == 0


@pytest.mark.parametrize(("delivered", "message"), [(2, "too few"), (4, "too many")])
@pytest.mark.parametrize("half", [0, 1])
def test_a_wrong_number_of_batches_is_refused(half: int, delivered: int, message: str) -> None:
    groups = replace(alone(), groups=2, across=Peer())
    halves = [Numbered(number, np.zeros(12, np.int64)) for number in (0, 1)]
    loaders: list[Any] = [images.loader(4) for images in halves]
    whole = loaders[half]
    loaders[half] = lambda indices: islice(cycle(whole(indices)), delivered)
    evaluated = Validation(loaders[0], ValidationShard(12, 0, 1, 4), CPU)
    draws = bootstrap.sampler("multinomial", 12, SEED, 0, 2)
    kept = keeping(12, 12, 2)
    with pytest.raises(DataError, match=f"{message} batches to evaluate together; allowed: 3"):
        evaluate(Table(*2 * [logits(0, 0, 12)]), groups, evaluated, loaders[1], draws, unending(), kept)


class Peer:
    """Stands for the ranks of other models, whose values equal those of this rank."""

    rank = 0

    def Reduce(self, own: Array, total: Array | None, operation: Any, root: int) -> None:  # noqa: N802, mpi4py's name
        if total is not None:
            total[:] = 2 * own

    def allreduce(self, value: int, operation: Any) -> int:
        return value
