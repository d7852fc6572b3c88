"""The draws of an epoch, block by block: each of them once, for any sampler, in the order of the blocks."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hpcai.data.bootstrap import Multinomial, Poisson, Whole, sampler
from hpcai.data.order import Shard, training_indices
from hpcai.data.weather.block_order import Blockwise

SAMPLERS = {
    "whole": Whole,
    "multinomial": lambda n: Multinomial(n, 5, 1),
    "poisson": lambda n: Poisson(n, 5, 1),
}


def begins_of(sizes: list[int]) -> Any:
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)


def blocks_of(frames: Any, begins: Any) -> Any:
    """The block of each frame."""
    return np.searchsorted(begins, frames, side="right") - 1


def runs_of(blocks: Any) -> int:
    """The number of runs of frames of one block."""
    return 1 + int(np.count_nonzero(np.diff(blocks)))


@settings(max_examples=60)
@given(
    st.lists(st.integers(1, 9), min_size=1, max_size=12),
    st.sampled_from(sorted(SAMPLERS)),
    st.integers(1, 5),
    st.integers(0, 3),
)
def test_the_order_is_a_bijection_in_which_each_rank_reads_block_by_block(
    sizes: list[int], kind: str, ranks: int, epoch: int
) -> None:
    begins = begins_of(sizes)
    draws = SAMPLERS[kind](int(begins[-1]))
    if draws.size == 0:  # Poisson may draw no sample of few frames
        return
    order = Blockwise(draws, begins, 7, epoch, ranks)
    whole = order(np.arange(draws.size))
    assert order.n == draws.size and whole.dtype == np.int64
    assert np.array_equal(np.sort(whole), np.arange(draws.size))
    blocks, cuts = blocks_of(draws.draw(whole), begins), 0
    for rank in range(ranks):
        own = blocks[: draws.size // ranks * ranks][rank::ranks]
        cuts += runs_of(own) if len(own) else 0
        assert runs_of(own) == len(np.unique(own)) or not len(own)  # no block is read a second time
    assert cuts <= len(np.unique(blocks)) + ranks - 1  # and a block is read by two ranks only if a cut falls into it


@pytest.mark.parametrize("kind", SAMPLERS)
def test_orders_differ_between_epochs_and_seeds_and_depend_on_positions_alone(kind: str) -> None:
    begins = begins_of([8] * 25)
    draws = SAMPLERS[kind](200)
    orders = [Blockwise(draws, begins, seed, epoch) for seed, epoch in ((1, 0), (1, 1), (2, 0))]
    whole = [order(np.arange(draws.size)) for order in orders]
    for one, other in ((0, 1), (0, 2), (1, 2)):
        assert np.count_nonzero(whole[one] == whole[other]) < 30
    mixed = np.random.default_rng(1).permutation(draws.size)
    assert np.array_equal(orders[0](mixed), whole[0][mixed])
    assert np.array_equal(orders[0](mixed[:100].reshape(4, 25)), whole[0][mixed[:100]].reshape(4, 25))


def test_frames_within_blocks_and_blocks_are_shuffled() -> None:
    begins = begins_of([50] * 20)
    frames = Blockwise(Whole(1000), begins, 3, 0)(np.arange(1000))
    blocks = blocks_of(frames, begins)[::50]
    assert sorted(blocks) == list(range(20)) and np.abs(np.diff(blocks)).mean() > 3
    assert np.abs(np.diff(frames[:50])).mean() > 8  # 17 if they are shuffled, 1 if not


@pytest.mark.parametrize("kind", ["multinomial", "poisson"])
def test_ranks_train_on_the_draws_of_their_model(kind: str) -> None:
    """All steps of the ranks together are the draws of the model, some of which occur more than once."""
    begins, ranks = begins_of([7] * 30), 3
    draws = sampler(kind, 210, 9, 1, 2)
    order = Blockwise(draws, begins, 9, 4, ranks)
    shards = [Shard(draws.size, rank, ranks, 4) for rank in range(ranks)]
    seen = np.concatenate([indices for shard in shards for indices in training_indices(shard, order, draws)])
    expected = np.bincount(draws.draw(np.arange(draws.size)), minlength=210)
    assert (np.bincount(seen, minlength=210) <= expected).all() and len(seen) == ranks * shards[0].samples
    assert expected.max() > 1
