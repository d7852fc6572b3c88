"""Philox4x32-10 on pairs of 16-bit halves; 64-bit draws and their scaling in Python's integers.

Source: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC11, section 3.3.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

Words = NDArray[np.uint32]
Integers = NDArray[np.int64]

# Numbers of the streams, by what is drawn.
MULTINOMIAL, POISSON, EPOCH_ORDER, CROPS, FIELD_TRANSFORMS = 1, 2, 3, 6, 11

_HALF = np.uint32(16)
_LOW = np.uint32(0xFFFF)


def stream(number: int, instance: int, part: int = 0) -> int:
    """The 64 bits of a stream: number (16 bits), part (16 bits), instance (32 bits)."""
    return (number * 2**16 + part) * 2**32 + instance


def block(counter: Sequence[Words], key: tuple[int, int]) -> tuple[Words, Words, Words, Words]:
    """Four words, uint32[n] each, of the counters of four words, word 0 least significant."""
    a, b, c, d = counter
    first, second = key
    for _ in range(10):
        high_a, low_a = _product(a, 0xD2511F53)
        high_c, low_c = _product(c, 0xCD9E8D57)
        a, b, c, d = high_c ^ b ^ np.uint32(first), low_c, high_a ^ d ^ np.uint32(second), low_a
        first, second = (first + 0x9E3779B9) % 2**32, (second + 0xBB67AE85) % 2**32
    return a, b, c, d


def _product(words: Words, factor: int) -> tuple[Words, Words]:
    """Upper and lower 32 bits of the products, from 16-bit halves."""
    above, below_ = np.uint32(factor >> 16), np.uint32(factor & 0xFFFF)
    upper, lower = words >> _HALF, words & _LOW
    one, other, least = upper * below_, lower * above, lower * below_
    middle = (one & _LOW) + (other & _LOW) + (least >> _HALF)
    high = upper * above + (one >> _HALF) + (other >> _HALF) + (middle >> _HALF)
    return high, middle << _HALF | least & _LOW


def draws(seed: int, number: int, counters: ArrayLike) -> list[int]:
    """A uniform 64-bit integer for each counter (0 to 2^63 - 1) of a stream, by a seed of 64 bits."""
    places = np.asarray(counters, "<i8").reshape(-1, 1).view("<u4")
    fixed = [np.full(len(places), word, np.uint32) for word in (number % 2**32, number >> 32)]
    low, high, _, _ = block([places[:, 0], places[:, 1], *fixed], (seed % 2**32, seed >> 32))
    return [one + other * 2**32 for one, other in zip(low.tolist(), high.tolist(), strict=True)]


def below(bound: int, seed: int, number: int, counters: ArrayLike) -> Integers:
    """Uniform integers in [0, bound), int64[n]: floor(draw x bound / 2^64)."""
    return np.array([draw * bound // 2**64 for draw in draws(seed, number, counters)], np.int64)
