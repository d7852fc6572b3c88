"""A random source of symbols whose entropy is known, and that needs attention: a Markov chain with recall.

After a symbol of the chain, once some symbol was followed by another, the sequence has SWITCH with probability RECALL,
then a key, uniform among the symbols that were followed by another in this sequence, then what last followed the key;
from there the chain goes on. The probability of each symbol is known to the source (docs/DATASETS.md).

The rows of the chain's table are draws from a Dirichlet distribution, by Polya's urn (Blackwell and MacQueen, Ferguson
Distributions via Polya Urn Schemes, 1973): all in integers, so that the symbols are the same on every machine.
"""

from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from hpcai.data.philox import Integers, Purpose, Words, below, stream, uniform64
from hpcai.kernels.cpu.compiled import compiled

SYMBOLS, SWITCH = 64, 64  # of the chain are 0 ... 63
BALLS = 4096  # of a row's urn: probabilities are multiples of 1 / BALLS
CONCENTRATION = 4  # of the Dirichlet distribution, all symbols together
RECALL = 2**32 // 10  # probability of SWITCH, times 2^32
MOST_PLACES = 2**20  # of a sequence

Doubles = npt.NDArray[np.float64]
_LOW, _HALF = np.uint64(2**32 - 1), np.uint64(32)
_BALLS, _COLOURS = 0, 1  # parts of the stream of the table; sequences have the instances of their splits
_CHAIN, _KEY, _RECALLED = 0, 1, 2  # what comes next


class Sequences(NamedTuple):
    """symbols: uint8[n, places + 1]; bits: float64[n], -log2 of the probability of all symbols but the first."""

    symbols: npt.NDArray[np.uint8]
    bits: Doubles


class Costs(NamedTuple):
    """-log2 of probabilities: of the chain's steps, float64[SYMBOLS, SYMBOLS], of a key among n, of SWITCH and none."""

    steps: Doubles
    keys: Doubles
    switch: float
    none: float


@lru_cache(maxsize=4)
def urns(seed: int) -> Integers:
    """The urn of each symbol's row, int64[SYMBOLS, BALLS]: the next symbol is a ball drawn at random.

    A ball is of a new colour, uniform, or of the colour of an earlier one; the numbers that choose are uniform 64 bits.
    """
    numbers = np.arange(SYMBOLS * BALLS)
    chosen = _halves(uniform64(seed, stream(Purpose.GENERATED_TEXT, 0, _BALLS), numbers))
    colours = below(SYMBOLS, seed, stream(Purpose.GENERATED_TEXT, 0, _COLOURS), numbers)
    balls = colours.reshape(SYMBOLS, BALLS)
    # below 2^32 x 2^13: floor(number x (CONCENTRATION + drawn) / 2^32), of the upper 32 bits
    places = chosen[0].reshape(SYMBOLS, BALLS) * (CONCENTRATION + np.arange(BALLS)) >> 32
    rows = np.arange(SYMBOLS)
    for drawn in range(1, BALLS):
        earlier = places[:, drawn] - CONCENTRATION
        balls[:, drawn] = np.where(earlier < 0, balls[:, drawn], balls[rows, earlier])
    return balls


@lru_cache(maxsize=4)
def costs(seed: int) -> Costs:
    """The costs of a seed's source in bits; infinite of steps that never happen."""
    counts = np.stack([np.bincount(row, minlength=SYMBOLS) for row in urns(seed)])
    with np.errstate(divide="ignore"):
        steps, keys = np.log2(BALLS) - np.log2(counts), np.log2(np.arange(SYMBOLS + 1))
    return Costs(steps, keys, 32.0 - float(np.log2(RECALL)), 32.0 - float(np.log2(2**32 - RECALL)))


def sequences(seed: int, split: int, indices: Integers, places: int) -> Sequences:
    """The sequences at the indices of a split, from 1, of `places` symbols after the first.

    A sequence is a function of (seed, split, index), and a longer one begins with the shorter. The same everywhere.
    """
    if not 1 <= places < MOST_PLACES:
        raise ValueError(f"{places} places; allowed: 1 to {MOST_PLACES - 1}")
    counters = np.asarray(indices, np.int64)[:, None] * MOST_PLACES + np.arange(places + 1)
    draws = _halves(uniform64(seed, stream(Purpose.GENERATED_TEXT, split), counters))
    found, bits, known = np.empty(counters.shape, np.uint8), np.zeros(len(counters)), costs(seed)
    _walk(*draws, urns(seed), known.steps, known.keys, known.switch, known.none, found, bits)
    return Sequences(found, bits)


def _halves(draws: Words) -> tuple[Integers, Integers]:
    """Upper and lower 32 bits of uniform 64-bit draws."""
    return (draws >> _HALF).astype(np.int64), (draws & _LOW).astype(np.int64)


@compiled
def _walk(high, low, urns, steps, keys, switch, none, found, bits):  # type: ignore[no-untyped-def]
    """Fill found, uint8[n, places + 1], and bits, from draws int64[n, places + 1] of 32 bits each."""
    followers = np.empty(SYMBOLS, np.int64)
    for row in range(len(found)):
        followers[:] = -1
        known, state, key = 0, _CHAIN, 0
        current = low[row, 0] * SYMBOLS >> 32
        found[row, 0] = current
        for place in range(1, found.shape[1]):
            if state == _KEY:
                key = _known(followers, low[row, place] * known >> 32)
                found[row, place], state = key, _RECALLED
                bits[row] += keys[known]
            elif state == _RECALLED:
                current = followers[key]
                found[row, place], state = current, _CHAIN
            elif known > 0 and high[row, place] < RECALL:
                found[row, place], state = SWITCH, _KEY
                bits[row] += switch
            else:
                chosen = urns[current, low[row, place] * BALLS >> 32]
                bits[row] += steps[current, chosen] + (none if known > 0 else 0.0)
                known += followers[current] < 0
                followers[current] = chosen
                found[row, place] = current = chosen


@compiled
def _known(followers, rank):  # type: ignore[no-untyped-def]
    """The symbol of this rank, from 0, among those with a follower."""
    for symbol in range(SYMBOLS):
        if followers[symbol] >= 0:
            if rank == 0:
                return symbol
            rank -= 1
    return 0
