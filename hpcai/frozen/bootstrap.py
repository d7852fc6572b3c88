"""Bootstrap samples of a model (bagging): the sample of each draw, from (kind, n, seed, model, models)."""

from collections.abc import Callable
from decimal import Decimal, localcontext
from functools import cache
from math import factorial

import numpy as np
from numpy.typing import NDArray

from hpcai.frozen.philox import MULTINOMIAL, POISSON, Integers, below, draws, stream

_AT_ONCE = 2**15


def bag(kind: str, n: int, seed: int, model: int, models: int) -> tuple[int, Callable[[Integers], Integers]]:
    """The number of draws of an epoch, and the function from draws to samples (int64).

    A single model takes each sample once; `multinomial` draws n samples with replacement; of `poisson` each sample is
    there Poisson(1) times, and the draws are in the samples' order.
    """
    if models == 1:
        return n, lambda chosen: chosen
    if kind == "multinomial":
        return n, lambda chosen: below(n, seed, stream(MULTINOMIAL, model), chosen)
    table = np.repeat(np.arange(n, dtype=np.int32), _counts(n, seed, model))
    return len(table), lambda chosen: table[chosen].astype(np.int64)


def _counts(n: int, seed: int, model: int) -> Integers:
    """How often each of n samples is there: the number of thresholds that its draw reaches."""
    limits = np.array(_limits(), np.uint64)
    parts = []
    for start in range(0, n, _AT_ONCE):
        chosen = np.arange(start, min(n, start + _AT_ONCE))
        drawn = np.array(draws(seed, stream(POISSON, model), chosen), np.uint64)
        parts.append(sum((drawn >= limit).astype(np.int64) for limit in limits))
    return np.concatenate(parts)


@cache
def _limits() -> list[int]:
    """2^64 x probability of at most j, rounded down, for j = 0, 1, ... as long as it is below 2^64."""
    with localcontext(prec=60):
        share, found = Decimal(-1).exp(), list[int]()
        total = Decimal(0)
        for j in range(40):
            total += share / factorial(j)
            found.append(int(total * 2**64))
    return [limit for limit in found if limit < 2**64]


def out_of_bag(kind: str, n: int, seed: int, model: int, models: int, samples: Integers) -> NDArray[np.bool_]:
    """Whether a model does not train on each of some samples, bool[len(samples)]; makes all draws of the model."""
    size, sample_of = bag(kind, n, seed, model, models)
    drawn = np.zeros(n, np.bool_)
    for start in range(0, size, _AT_ONCE):
        drawn[sample_of(np.arange(start, min(size, start + _AT_ONCE)))] = True
    return ~drawn[samples]
