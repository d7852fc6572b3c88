"""Bootstrap samples: their sizes and samples, which are functions of their arguments alone."""

from fractions import Fraction
from math import factorial

import numpy as np
import pytest

from hpcai.data import bootstrap
from hpcai.data.bootstrap import Multinomial, Poisson, Whole, sampler

N = 100_000
SHARE = 0.6321206  # 1 - 1/e
KINDS = [Multinomial, Poisson]


def draws(sample):
    return sample.draw(np.arange(sample.size))


def test_a_single_model_is_trained_on_each_sample_once():
    whole = sampler("multinomial", 10, seed=1, member=0, members=1)
    assert isinstance(whole, Whole)
    assert draws(whole).tolist() == list(range(10))
    assert (whole.samples, whole.size) == (10, 10)
    assert whole.in_bag(2, 7).tolist() == [True] * 5


@pytest.mark.parametrize(("name", "kind"), [("multinomial", Multinomial), ("poisson", Poisson)])
def test_bootstraps_begin_at_two_models(name, kind):
    drawn = sampler(name, 500, seed=1, member=1, members=2)
    assert isinstance(drawn, kind)
    assert np.array_equal(draws(drawn), draws(kind(500, 1, 1)))


@pytest.mark.parametrize("kind", KINDS)
def test_the_share_of_distinct_samples(kind):
    """Deviation of the share over samples: at most sqrt(0.632 * 0.368 / N) = 0.0015."""
    assert abs(len(np.unique(draws(kind(N, 1, 0)))) / N - SHARE) < 0.006


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n", [2, 3, 63, 64, 65, 1000, 70_001])
def test_in_bag_contains_the_drawn_samples(kind, n):
    sample = kind(n, 5, 3)
    counts = np.bincount(draws(sample), minlength=n)
    assert len(counts) == n == sample.samples
    assert np.array_equal(sample.in_bag(0, n), counts > 0)
    assert np.array_equal(sample.in_bag(n // 3, n // 2), counts[n // 3 : n // 2] > 0)


@pytest.mark.parametrize("kind", KINDS)
def test_draws_do_not_depend_on_order_or_batching(kind):
    sample, k = kind(3000, 5, 3), np.random.default_rng(1).permutation(2800)
    whole = sample.draw(k)
    assert whole.dtype == np.int64
    assert np.array_equal(sample.draw(np.sort(k))[k], whole)
    assert np.array_equal(np.concatenate([kind(3000, 5, 3).draw(part) for part in np.split(k, 7)]), whole)
    assert np.array_equal(sample.draw(k.reshape(28, 100)), whole.reshape(28, 100))
    assert sample.draw(k[:0]).shape == (0,)


@pytest.mark.parametrize("kind", KINDS)
def test_members_and_seeds_differ(kind):
    counts = [np.bincount(draws(kind(N, *key)), minlength=N) for key in ((1, 0), (1, 1), (2, 0))]
    for first, second in ((0, 1), (0, 2), (1, 2)):
        assert abs(np.corrcoef(counts[first], counts[second])[0, 1]) < 0.02  # independent: deviation 0.003
        assert abs(((counts[first] > 0) & (counts[second] > 0)).mean() - SHARE**2) < 0.008


@pytest.mark.parametrize("kind", KINDS)
def test_counts_have_the_poisson_distribution(kind):
    seen = np.bincount(np.bincount(draws(kind(N, 9, 4)), minlength=N), minlength=6)[:6]
    expected = np.array([N / np.e / factorial(count) for count in range(6)])
    assert ((seen - expected) ** 2 / expected).sum() < 30  # about 5 degrees of freedom


def test_multinomial_has_exactly_n_draws():
    assert [Multinomial(n, 1, 0).size for n in (2, 17, 6000)] == [2, 17, 6000]


def test_multinomial_is_the_same_on_every_machine():
    assert Multinomial(6000, 1, 0).draw(np.arange(6)).tolist() == [3467, 2856, 3996, 461, 3555, 1987]


def test_poisson_is_the_same_on_every_machine():
    assert Poisson(6000, 1, 0).counts(np.arange(16)).tolist() == [3, 1, 1, 2, 1, 2, 0, 0, 2, 3, 1, 2, 1, 1, 2, 2]


def test_poisson_counts_are_functions_of_the_sample_alone():
    assert np.array_equal(Poisson(200, 1, 0).counts(np.arange(200)), Poisson(5000, 1, 0).counts(np.arange(200)))


def test_poisson_draws_repeat_each_sample_as_counted():
    sample = Poisson(70_001, 2, 1)
    counts = sample.counts(np.arange(70_001))
    assert sample.size == counts.sum()
    assert np.array_equal(draws(sample), np.repeat(np.arange(70_001), counts))


def test_poisson_sizes_differ_between_members():
    sizes = [Poisson(6000, 1, member).size for member in range(8)]
    assert len(set(sizes)) > 1
    assert all(abs(size - 6000) < 5 * 6000**0.5 for size in sizes)


def test_poisson_thresholds_are_exact():
    """Bounds of e from partial sums enclose each threshold."""
    below_e = sum(Fraction(1, factorial(i)) for i in range(40))
    above_e = below_e + Fraction(2, factorial(40))
    for count, threshold in enumerate(bootstrap._THRESHOLDS.tolist()):
        partial = 2**64 * sum(Fraction(1, factorial(i)) for i in range(count + 1))
        assert int(partial / above_e) <= threshold <= int(partial / below_e)
    assert count >= 19
