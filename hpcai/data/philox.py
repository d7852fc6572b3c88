"""Philox4x32-10, a counter-based random number generator: a draw is a pure function of (seed, stream, counter).

There is no state, so that any rank makes any draw in any order and gets the same integers on every machine.
"""

from enum import IntEnum

import numpy as np
import numpy.typing as npt

Words = npt.NDArray[np.uint64]
Integers = npt.NDArray[np.int64]

_MULTIPLIERS = (np.uint64(0xD2511F53), np.uint64(0xCD9E8D57))
_WEYL = (0x9E3779B9, 0xBB67AE85)
_ROUNDS = 10
_BLOCK = 8192  # draws at a time: the working set stays in the second-level cache
_SHIFT = np.uint64(32)
_LOW = np.uint64(0xFFFFFFFF)


class Purpose(IntEnum):
    """Purpose of a draw, part of the stream, so that no two uses share draws. The values never change."""

    MULTINOMIAL = 1
    POISSON = 2
    EPOCH_ORDER = 3
    WEIGHTS = 4
    GENERATED_IMAGES = 5
    CROPS = 6
    REPLAYED_STEP = 7
    MORPHISMS = 8
    PROPOSALS = 9
    GENERATED_WEATHER = 10
    FIELD_TRANSFORMS = 11
    SAMPLED_BOXES = 12
    GENERATED_TEXT = 13


def stream(purpose: Purpose, instance: int, part: int = 0) -> int:
    """Stream number of one use: 16 bits purpose, 16 bits part (a Feistel round), 32 bits instance (member, epoch)."""
    if not (0 <= instance < 1 << 32 and 0 <= part < 1 << 16):
        raise ValueError(f"instance {instance}, part {part}: allowed are 32 and 16 bits, not negative")
    return purpose << 48 | part << 32 | instance


def philox4x32(counter: tuple[Words, Words, Words, Words], key: tuple[int, int]) -> tuple[Words, Words, Words, Words]:
    """Four 32-bit words for each 128-bit counter.

    counter: four uint64 arrays that broadcast, each value below 2^32, word 0 least significant; key: two 32-bit words.
    Returns uint64 arrays with values below 2^32. Source: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy
    as 1, 2, 3", SC11, section 3.3 and table 2.
    """
    c0, c1, c2, c3 = counter
    for r in range(_ROUNDS):
        k0, k1 = (np.uint64((k + r * w) & 0xFFFFFFFF) for k, w in zip(key, _WEYL, strict=True))
        p0, p1 = c0 * _MULTIPLIERS[0], c2 * _MULTIPLIERS[1]
        c0, c1, c2, c3 = p1 >> _SHIFT ^ c1 ^ k0, p1 & _LOW, p0 >> _SHIFT ^ c3 ^ k1, p0 & _LOW
    return c0, c1, c2, c3


def uniform64(seed: int, stream_number: int, counters: Integers) -> Words:
    """Uniform 64-bit draws, one for each counter.

    seed, stream_number: 64 bits each; counters: int64 of any shape, not negative. Returns uint64 of that shape.
    """
    if not 0 <= seed < 1 << 64:
        raise ValueError(f"seed {seed}: allowed are 0 to 2^64 - 1")
    flat = np.asarray(counters, np.int64).reshape(-1).astype(np.uint64)
    draws = np.empty_like(flat)
    key = (seed & 0xFFFFFFFF, seed >> 32)
    stream_low, stream_high = (
        np.array([word], np.uint64) for word in (stream_number & 0xFFFFFFFF, stream_number >> 32)
    )
    for start in range(0, len(flat), _BLOCK):
        block = flat[start : start + _BLOCK]
        low_word, high_word, _, _ = philox4x32((block & _LOW, block >> _SHIFT, stream_low, stream_high), key)
        draws[start : start + _BLOCK] = high_word << _SHIFT | low_word
    return draws.reshape(np.shape(counters))


def seed_of(seed: int, purpose: Purpose, instance: int) -> int:
    """A seed, 0 to 2^63 - 1, for another kind of generator, different for each use."""
    return int(uniform64(seed, stream(purpose, instance), np.zeros(1, np.int64))[0] >> np.uint64(1))


def below(bound: int, seed: int, stream_number: int, counters: Integers) -> Integers:
    """Uniform integers in [0, bound), one for each counter: floor(draw * bound / 2^64), in exact integer arithmetic.

    bound: 1 to 2^63. Each value's probability differs from 1/bound by less than 2^-64. Returns int64.
    """
    if not 1 <= bound <= 1 << 63:
        raise ValueError(f"bound {bound}: allowed are 1 to 2^63")
    return scale(uniform64(seed, stream_number, counters), bound).astype(np.int64)


def scale(draws: Words, bound: int) -> Words:
    """Upper 64 bits of the 128-bit products draws * bound, from 32-bit halves: floor(draws * bound / 2^64)."""
    high, low = draws >> _SHIFT, draws & _LOW
    bound_high, bound_low = np.uint64(bound >> 32), np.uint64(bound & 0xFFFFFFFF)
    middle = high * bound_low + (low * bound_low >> _SHIFT)
    upper: Words = middle >> _SHIFT
    if bound_high == 0:
        return upper
    carry = low * bound_high + (middle & _LOW)
    return high * bound_high + upper + (carry >> _SHIFT)
