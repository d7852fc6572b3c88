"""The order of an epoch is a bijection that looks random; shards divide it by their rule."""

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hpcai.data.bootstrap import Multinomial, Poisson, Whole
from hpcai.data.order import EpochOrder, Shard, ValidationShard, training_indices, validation_indices
from hpcai.errors import DataError

SIZES = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 15, 16, 17, 31, 32, 33, 255, 256, 257, 1000, 4095, 4096, 4097, 60_000]


def whole(n, seed=1, epoch=0):
    return EpochOrder(n, seed, epoch)(np.arange(n))


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("epoch", [0, 1, 89])
def test_an_epoch_is_a_bijection(n, epoch):
    order = whole(n, epoch=epoch)
    assert order.dtype == np.int64
    assert np.array_equal(np.sort(order), np.arange(n))


@settings(deadline=None, max_examples=30)
@given(st.integers(1, 3000), st.integers(0, 2**64 - 1), st.integers(0, 2**32 - 1))
def test_any_epoch_of_any_size_is_a_bijection(n, seed, epoch):
    assert np.array_equal(np.sort(whole(n, seed, epoch)), np.arange(n))


@pytest.mark.parametrize("n", [2**40, 2**40 + 1, 2**62])
def test_huge_epochs_need_no_memory(n):
    positions = np.concatenate([np.arange(1000), n - 1 - np.arange(1000)])
    order = EpochOrder(n, 1, 0)(positions)
    assert 0 <= order.min() <= order.max() < n
    assert len(np.unique(order)) == 2000


def test_positions_do_not_depend_on_order_or_batching():
    order, mixed = EpochOrder(5000, 3, 2), np.random.default_rng(1).permutation(5000)
    assert np.array_equal(order(mixed), whole(5000, 3, 2)[mixed])
    assert np.array_equal(np.concatenate([order(part) for part in np.split(mixed, 10)]), order(mixed))
    assert np.array_equal(order(mixed.reshape(50, 100)), order(mixed).reshape(50, 100))
    assert order(mixed[:0]).shape == (0,)


def test_epochs_and_seeds_differ():
    orders = [whole(6000), whole(6000, epoch=1), whole(6000, seed=2)]
    for first, second in ((0, 1), (0, 2), (1, 2)):
        assert (orders[first] == orders[second]).sum() < 10  # one on average


def test_the_order_is_the_same_on_every_machine():
    assert EpochOrder(6000, 1, 0)(np.arange(6)).tolist() == [228, 3885, 2043, 4148, 3347, 639]


@pytest.mark.parametrize("n", [3, 4])
def test_every_order_of_a_few_samples_occurs(n):
    seen = {tuple(whole(n, epoch=epoch).tolist()) for epoch in range(500)}
    assert seen == set(permutations(range(n)))


@pytest.mark.parametrize("n", [6000, 4096, 60_000])
def test_positions_and_samples_are_uncorrelated(n):
    """Pairs (position, place) on a 16 x 16 table over 8 epochs: 225 degrees of freedom, deviation 21."""
    table = np.zeros((16, 16))
    for epoch in range(8):
        np.add.at(table, (np.arange(n) * 16 // n, whole(n, epoch=epoch) * 16 // n), 1)
    expected = 8 * n / 256
    assert 225 - 110 < ((table - expected) ** 2 / expected).sum() < 225 + 110


@pytest.mark.parametrize("n", [6000, 4096])
def test_neighbouring_samples_are_separated(n):
    """Steps from one place to the next, modulo n, in 16 classes over 8 epochs: 15 degrees of freedom, deviation 5.5."""
    steps = np.concatenate([np.diff(whole(n, epoch=epoch)) % n for epoch in range(8)])
    counts = np.bincount(steps * 16 // n, minlength=16)
    expected = len(steps) / 16
    assert ((counts - expected) ** 2 / expected).sum() < 45
    assert (steps == 1).sum() < 30  # eight on average


@pytest.mark.slow
def test_the_same_position_has_every_sample_in_some_epoch():
    places = [int(EpochOrder(16, 1, epoch)(np.array([5]))[0]) for epoch in range(1600)]
    chi_square = ((np.bincount(places, minlength=16) - 100) ** 2 / 100).sum()
    assert chi_square < 45  # 15 degrees of freedom


def test_an_empty_epoch_is_refused():
    with pytest.raises(DataError, match="at least 1"):
        EpochOrder(0, 1, 0)


@pytest.mark.parametrize("ranks", range(1, 8))
@pytest.mark.parametrize(("n", "batch"), [(6000, 32), (6001, 32), (100, 7), (99, 7), (64, 64), (15, 1), (129, 16)])
def test_training_shards_divide_the_epoch(n, ranks, batch):
    shards = [Shard(n, rank, ranks, batch) for rank in range(ranks)]
    steps = {shard.steps for shard in shards}
    positions = [[shard.step_positions(step) for step in range(shard.steps)] for shard in shards]
    everything = np.concatenate([step for part in positions for step in part])
    samples = shards[0].samples
    assert len(steps) == 1
    assert {sum(map(len, part)) for part in positions} == {samples}
    assert np.array_equal(np.sort(everything), np.arange(ranks * samples))
    assert all(2 <= len(step) <= batch or batch == 1 for part in positions for step in part)
    left_out = n - ranks * samples
    assert left_out < ranks or (left_out < 2 * ranks and n // ranks % batch == 1)
    assert len({shard.rule for shard in shards}) == 1
    assert f"{n}:" in shards[0].rule
    assert f"{steps.pop()} steps of {batch}" in shards[0].rule
    assert f"the last of {len(positions[0][-1])};" in shards[0].rule
    assert f"{left_out} left out" in shards[0].rule


def test_a_step_of_all_ranks_is_the_step_of_one_rank_with_the_whole_batch():
    parts = [Shard(6000, rank, 4, 32) for rank in range(4)]
    one = Shard(6000, 0, 1, 128)
    for step in (0, 5, one.steps - 1):
        together = np.concatenate([part.step_positions(step) for part in parts])
        assert np.array_equal(np.sort(together), one.step_positions(step))


@pytest.mark.parametrize(("n", "ranks"), [(0, 1), (1, 1), (3, 2), (7, 4)])
def test_an_epoch_without_a_step_is_refused(n, ranks):
    with pytest.raises(DataError, match=f"at least {2 * ranks}"):
        Shard(n, 0, ranks, 32)


@pytest.mark.parametrize("ranks", range(1, 10))
@pytest.mark.parametrize("n", [1, 2, 7, 8, 2000, 2003])
@pytest.mark.parametrize("batch", [1, 3, 64])
def test_validation_shards_have_every_sample_once(n, ranks, batch):
    shards = [ValidationShard(n, rank, ranks, batch) for rank in range(ranks)]
    taken = [list(validation_indices(shard)) for shard in shards]
    assert sorted(np.concatenate([step for part in taken for step in part]).tolist()) == list(range(n))
    assert [len(part) for part in taken] == [shard.steps for shard in shards]
    assert [sum(map(len, part)) for part in taken] == [shard.samples for shard in shards]
    assert all(1 <= len(step) <= batch for part in taken for step in part)
    assert max(shard.steps for shard in shards) - min(shard.steps for shard in shards) <= 1


@pytest.mark.parametrize("sampler", [Whole(3001), Multinomial(3001, 4, 1), Poisson(3001, 4, 1)])
@pytest.mark.parametrize("batch", [32, 10_000])
def test_training_indices_follow_position_order_and_draw(sampler, batch):
    shard, order = Shard(sampler.size, 1, 3, batch), EpochOrder(sampler.size, 4, 2)
    steps = list(training_indices(shard, order, sampler))
    assert len(steps) == shard.steps
    for step, indices in enumerate(steps):
        assert np.array_equal(indices, sampler.draw(order(shard.step_positions(step))))


@pytest.mark.parametrize("start", [0, 1, 30, 31, 32])
def test_training_indices_continue_from_any_step(start):
    sampler = Multinomial(3000, 4, 1)
    shard, order = Shard(3000, 1, 3, 32), EpochOrder(3000, 4, 2)
    rest, steps = list(training_indices(shard, order, sampler, start)), list(training_indices(shard, order, sampler))
    assert len(rest) == shard.steps - start
    assert all(np.array_equal(one, other) for one, other in zip(rest, steps[start:], strict=True))


def test_all_ranks_together_train_on_the_bootstrap():
    sampler, order = Poisson(2000, 1, 1), EpochOrder(Poisson(2000, 1, 1).size, 1, 0)
    n = sampler.size
    seen = [np.concatenate(list(training_indices(Shard(n, rank, 2, 32), order, sampler))) for rank in range(2)]
    counts = np.bincount(np.concatenate(seen), minlength=2000)
    missing = sampler.counts(np.arange(2000)) - counts
    assert missing.min() >= 0
    assert missing.sum() == n - 2 * Shard(n, 0, 2, 32).samples


def test_parts_of_different_epochs_are_refused():
    with pytest.raises(ValueError, match="one epoch"):
        next(training_indices(Shard(100, 0, 1, 8), EpochOrder(100, 1, 0), Whole(99)))
