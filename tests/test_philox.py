"""Philox against Random123's known answers, and the draws made with it."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hpcai.data import philox
from hpcai.data.philox import Purpose, below, philox4x32, scale, seed_of, stream, uniform64

# counter, key, answer: the three philox4x32-10 lines of kat_vectors of Random123 (zeros, ones, digits of pi)
KNOWN_ANSWERS = [
    ("00000000 00000000 00000000 00000000", "00000000 00000000", "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
    ("ffffffff ffffffff ffffffff ffffffff", "ffffffff ffffffff", "408f276d 41c83b0e a20bc7c6 6d5451fd"),
    ("243f6a88 85a308d3 13198a2e 03707344", "a4093822 299f31d0", "d16cfe09 94fdcceb 5001e420 24126ea1"),
]


def words(text):
    return [int(word, 16) for word in text.split()]


@pytest.mark.parametrize(("counter", "key", "answer"), KNOWN_ANSWERS)
def test_known_answers_of_random123(counter, key, answer):
    drawn = philox4x32(tuple(np.array([word], np.uint64) for word in words(counter)), tuple(words(key)))
    assert [int(word[0]) for word in drawn] == words(answer)


def test_known_answers_as_one_array():
    counters = np.array([words(counter) for counter, _, _ in KNOWN_ANSWERS], np.uint64)
    for line, (_, key, answer) in enumerate(KNOWN_ANSWERS):
        drawn = philox4x32(tuple(counters.T), tuple(words(key)))
        assert [int(word[line]) for word in drawn] == words(answer)


def test_counter_stream_and_seed_have_the_documented_places():
    """A 64-bit draw is the first two words of the block at (counter, stream) under the seed."""
    counter, number, seed = 0x85A308D3243F6A88 >> 1, 0x0370734413198A2E, 0x299F31D0A4093822
    halves = [counter & 0xFFFFFFFF, counter >> 32, number & 0xFFFFFFFF, number >> 32]
    block = philox4x32(tuple(np.array([half], np.uint64) for half in halves), (seed & 0xFFFFFFFF, seed >> 32))
    drawn = int(uniform64(seed, number, np.array([counter]))[0])
    assert drawn == int(block[1][0]) << 32 | int(block[0][0])


def test_draws_do_not_depend_on_order_or_batching(monkeypatch):
    counters = np.random.default_rng(1).integers(0, 1 << 62, 3000)
    whole = uniform64(7, 5, counters)
    assert np.array_equal(uniform64(7, 5, counters[::-1]), whole[::-1])
    assert np.array_equal(uniform64(7, 5, counters.reshape(30, 100)), whole.reshape(30, 100))
    assert [int(uniform64(7, 5, counters[k : k + 1])[0]) for k in range(50)] == whole[:50].tolist()
    monkeypatch.setattr(philox, "_BLOCK", 7)
    assert np.array_equal(uniform64(7, 5, counters), whole)


@settings(deadline=None)
@given(st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=20), st.integers(1, 2**63))
def test_scaling_is_exact(draws, bound):
    scaled = scale(np.array(draws, np.uint64), bound)
    assert scaled.tolist() == [draw * bound >> 64 for draw in draws]


@pytest.mark.parametrize("bound", [1, 2, 10, 1000, 2**32 - 1, 2**32, 2**32 + 1, 2**63])
def test_below_stays_below_its_bound(bound):
    drawn = below(bound, 3, 4, np.arange(2000))
    assert drawn.dtype == np.int64
    assert 0 <= drawn.min() <= drawn.max() < bound


def test_below_is_uniform():
    counts = np.bincount(below(100, 11, 12, np.arange(100_000)), minlength=100)
    chi_square = ((counts - 1000) ** 2 / 1000).sum()
    assert 50 < chi_square < 170  # 99 degrees of freedom: mean 99, deviation 14


def test_streams_and_seeds_differ():
    numbers = [stream(purpose, instance, part) for purpose in Purpose for instance in (0, 1, 9) for part in (0, 1)]
    draws = {int(uniform64(seed, number, np.zeros(1, np.int64))[0]) for number in numbers for seed in (0, 1, 2**63)}
    assert len(draws) == len(numbers) * 3


def test_seeds_of_other_generators_differ_and_fit():
    seeds = {seed_of(1, Purpose.WEIGHTS, member) for member in range(1000)}
    assert len(seeds) == 1000
    assert max(seeds) < 2**63
    assert seed_of(1, Purpose.WEIGHTS, 0) != seed_of(2, Purpose.WEIGHTS, 0)


@pytest.mark.parametrize("seed", [-1, 2**64])
def test_seed_out_of_range_is_refused(seed):
    with pytest.raises(ValueError, match="allowed"):
        uniform64(seed, 0, np.arange(3))


@pytest.mark.parametrize(("instance", "part"), [(-1, 0), (2**32, 0), (0, -1), (0, 2**16)])
def test_stream_out_of_range_is_refused(instance, part):
    with pytest.raises(ValueError, match="allowed"):
        stream(Purpose.POISSON, instance, part)


@pytest.mark.parametrize("bound", [0, -1, 2**63 + 1])
def test_bound_out_of_range_is_refused(bound):
    with pytest.raises(ValueError, match="allowed"):
        below(bound, 0, 0, np.arange(3))
