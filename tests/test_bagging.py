"""The ensemble's judgement, against one that has everything in one place."""

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from tiny import CPU, Numbered, Table

from hpcai.data import bootstrap
from hpcai.data.order import ValidationShard
from hpcai.train.bagging import Verdicts, judge
from hpcai.train.evaluate import Validation

CLASSES, SEED = 4, 3
Array = npt.NDArray[Any]


class Watched:
    """A communicator that notes the blocks given to Reduce and who received them."""

    def __init__(self, comm: Any) -> None:
        self.comm, self.rank = comm, comm.rank
        self.sizes: list[int] = []
        self.roots: list[int] = []

    def Reduce(self, own: Array, total: Array | None, operation: Any, root: int) -> None:  # noqa: N802, mpi4py's name
        assert (total is None) == (root != self.rank)
        self.sizes.append(own.size)
        self.roots.append(root)
        self.comm.Reduce(own, total, operation, root)


def logits(group: int, half: int, n: int) -> Array:
    """What model `group` answers; the same on every rank that asks."""
    return np.random.default_rng([group, half, n]).standard_normal((n, CLASSES)).astype(np.float32)


def in_one_place(groups: int, halves: list[Numbered], samplers: list[bootstrap.Sampler]) -> Verdicts:
    """The judgement by definition: all outputs of all models in one array."""
    outputs = [
        np.stack([torch.from_numpy(logits(g, half, len(split))).softmax(1).double().numpy() for g in range(groups)])
        for half, split in enumerate(halves)
    ]
    votes = outputs[0].argmax(2)
    pairs = sum((votes[i] == votes[j]).sum() for i in range(groups) for j in range(i))
    correct = (outputs[0].mean(0).argmax(1) == halves[0].classes).sum()
    if groups == 1:
        return Verdicts(correct, 0, 0, 0, 0)
    out = np.ones((groups, len(halves[1])), bool)
    for model, sampler in enumerate(samplers):
        out[model, sampler.draw(np.arange(sampler.size))] = False
    judged = out.any(0)
    bag = (outputs[1] * out[:, :, None]).sum(0).argmax(1) == halves[1].classes
    return Verdicts(correct, pairs, 0, (bag & judged).sum(), judged.sum())


@pytest.mark.parallel(4)
def test_judgement_equals_that_of_one_who_has_everything() -> None:
    from mpi4py import MPI

    from hpcai.comm.grid import split

    world, random = MPI.COMM_WORLD, np.random.default_rng(1)
    shapes = [(p, q) for p in range(1, world.size + 1) for q in range(1, world.size // p + 1)]
    for turn, (groups, degree) in enumerate(shapes):
        kind, mapping = ("multinomial", "poisson")[turn % 2], ("row", "column")[turn // 2 % 2]
        # so many blocks that the ranks take turns unevenly, the last block smaller, some ranks with a block less
        validation, training, batch = 13 * degree + 1, 11 * degree + degree // 2, 4
        halves = [Numbered(half, random.integers(0, CLASSES, n)) for half, n in enumerate((validation, training))]
        group = split(world, groups, degree, mapping)
        if group is None:
            continue
        samplers = [bootstrap.sampler(kind, training, SEED, member, groups) for member in range(groups)]
        watched = Watched(group.across)
        own, member = group.seat.group, group.seat.member
        model = Table(logits(own, 0, validation), logits(own, 1, training))
        judged = Validation(halves[0].loader(batch), ValidationShard(validation, member, degree, batch), CPU)
        model.train()
        found = judge(model, replace(group, across=watched), judged, halves[1].loader(batch), samplers[own])
        assert found == in_one_place(groups, halves, samplers), (groups, degree, kind)
        assert group.active.allgather(found) == [found] * groups * degree
        assert model.training
        # no rank holds more than a block, and they take turns in holding one
        assert max(watched.sizes) <= 2 * batch * CLASSES
        assert watched.roots == [block % groups for block in _blocks(judged.shard, training, groups)]
        assert sorted(group.model.allreduce(halves[0].read)) == list(range(validation))
        group.free()


def _blocks(shard: ValidationShard, training: int, groups: int) -> list[int]:
    out_of_bag = replace(shard, n=training).steps if groups > 1 else 0
    return [*range(shard.steps), *range(out_of_bag)]


@pytest.mark.parallel(3)
def test_samples_judged_twice_and_models_that_blew_up_do_not_pass_unseen() -> None:
    from mpi4py import MPI

    from hpcai.comm.grid import split

    world = MPI.COMM_WORLD
    group = split(world, 1, world.size, "row")
    assert group is not None
    n = 6 * group.degree
    halves = [Numbered(half, np.zeros(n, np.int64)) for half in (0, 1)]
    whole = bootstrap.sampler("multinomial", n, SEED, 0, 1)

    def miscounted(samples: int, rank: int) -> int:
        judged = Validation(halves[0].loader(4), ValidationShard(samples, rank, group.degree, 4), CPU)
        return judge(Table(*2 * [logits(0, 0, n)]), group, judged, halves[1].loader(4), whole).validation_miscounted

    assert miscounted(n, group.seat.member) == 0
    if group.degree > 1:
        assert miscounted(n, 0) == 1
    models = split(world, world.size, 1, "row")
    assert models is not None
    ensemble = Table(*2 * [np.full((n, CLASSES), np.nan if models.seat.group == 0 else 1.0, np.float32)])
    judged = Validation(halves[0].loader(4), ValidationShard(n, 0, 1, 4), CPU)
    draws = bootstrap.sampler("multinomial", n, SEED, models.seat.group, world.size)
    found = judge(ensemble, models, judged, halves[1].loader(4), draws)  # ends, on every rank
    assert found.bag_judged <= n
