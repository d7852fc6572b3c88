"""The account of an epoch's samples: it accepts a group's own samples in any division, and detects all others."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from mpi4py import MPI
from tiny import SEED

from hpcai.comm.grid import Coordinates, Group, split
from hpcai.data.bootstrap import Sampler, sampler
from hpcai.data.order import EpochOrder, Shard, training_indices
from hpcai.train.accounting import SampleAccount

Batches = list[np.ndarray]
EPOCH = 3
SAMPLERS = ("whole", "multinomial", "poisson")


def drawing(kind: str, samples: int) -> Sampler:
    return sampler(kind, samples, SEED, 1, 1 if kind == "whole" else 2)


def epoch(draws: Sampler, rank: int, ranks: int, batch: int, start: int = 0, number: int = EPOCH) -> Batches:
    """The batches that the loader delivers to one rank."""
    order = EpochOrder(draws.size, SEED, number)
    return list(training_indices(Shard(draws.size, rank, ranks, batch), order, draws, start))


def differs(
    group: Group, draws: Sampler, batch: int, delivered: Batches, start: int = 0, end: int = 1 << 20
) -> bool:
    """The verdict on the samples that were delivered to the group."""
    account = SampleAccount(draws, group, batch, lambda number: EpochOrder(draws.size, SEED, number))
    for _ in range(2):  # indices noted before an epoch begins do not count
        account.begin()
        for indices in delivered:
            account.note(indices)
    steps = Shard(draws.size, 0, group.divided.replicas, batch).steps
    return account.differs(EPOCH, start, min(end, steps))


def world() -> Group:
    group = split(MPI.COMM_WORLD, 1, MPI.COMM_WORLD.size, "row")
    assert group is not None
    return group


@pytest.mark.parallel(3)
def test_the_right_samples_of_a_group_are_accepted() -> None:
    group = world()
    for kind, samples, batch, start in product(SAMPLERS, (300, 301, 70_001), (7, 32), (0, 1, 3)):
        draws = drawing(kind, samples)
        delivered = epoch(draws, group.coordinates.member, group.degree, batch, start)
        assert not differs(group, draws, batch, delivered, start), (kind, samples, batch, start)


@pytest.mark.parallel(3)
def test_parts_of_an_epoch_are_accepted_and_a_lost_batch_of_one_detected() -> None:
    group = world()
    for kind, batch, (start, end) in product(SAMPLERS, (7, 32), ((0, 1), (1, 2), (2, 1 << 20), (0, 0))):
        draws = drawing(kind, 300)
        delivered = epoch(draws, group.coordinates.member, group.degree, batch, start)[: end - start]
        assert not differs(group, draws, batch, delivered, start, end), (kind, batch, start, end)
        assert not delivered or differs(group, draws, batch, delivered[1:], start, end), (kind, batch, start, end)


def lost(batches: Batches) -> Batches:
    return batches[1:]


def twice(batches: Batches) -> Batches:
    """One sample replaces another."""
    batches[1][2] = batches[0][0]
    return batches


def more(batches: Batches) -> Batches:
    return [*batches, batches[0]]


def exchanged(batches: Batches) -> Batches:
    """Other indices with the same sum."""
    batches[0][:2] += [1, -1]
    return batches


@pytest.mark.parallel(3)
def test_other_samples_on_one_rank_are_detected() -> None:
    group, wrong = world(), MPI.COMM_WORLD.size - 1
    for kind in SAMPLERS:
        draws = drawing(kind, 300)
        for fault in (lost, twice, more, exchanged):
            delivered = epoch(draws, group.coordinates.member, group.degree, 8)
            delivered = fault(delivered) if group.coordinates.member == wrong else delivered
            assert differs(group, draws, 8, delivered), (kind, fault.__name__)
        shard_of_the_first = epoch(draws, group.coordinates.member % max(1, wrong), group.degree, 8)
        assert differs(group, draws, 8, shard_of_the_first) == (group.degree > 1), kind


@pytest.mark.parametrize("kind", SAMPLERS)
def test_another_epoch_is_detected_where_each_epoch_drops_other_samples(kind: str) -> None:
    group = replace(world(), degree=1, coordinates=Coordinates(0, 0), model=MPI.COMM_SELF)
    draws = drawing(kind, 250)
    batch = draws.size - 1  # the last batch would have one sample: it is dropped, a different one in each epoch
    assert not differs(group, draws, batch, epoch(draws, 0, 1, batch))
    assert differs(group, draws, batch, epoch(draws, 0, 1, batch, number=EPOCH + 1))


def test_an_account_allocates_no_memory_while_indices_are_noted() -> None:
    account = SampleAccount(drawing("whole", 10_000), world(), 32, lambda number: EpochOrder(10_000, SEED, number))
    before = account._delivered.ctypes.data
    for _ in range(400):
        account.note(np.arange(32))
    assert account._delivered.ctypes.data == before
    assert account._count == 12_800
