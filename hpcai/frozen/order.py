"""Order of an epoch, of a few positions, or of all where frames are read in blocks; positions of a rank's step.

Source of the permutation: Black and Rogaway, "Ciphers with arbitrary finite domains", CT-RSA 2002, sections 4 and 5.
"""

import numpy as np

from hpcai.frozen.philox import EPOCH_ORDER, Integers, below, stream

_ROUNDS = 6
_WITHIN_BLOCKS = 2**31  # first number of an order within a block


def ordered(positions: Integers, n: int, seed: int, epoch: int) -> Integers:
    """Draws at the positions of an epoch of n, int64: a Feistel network; results of n or more are mapped again."""
    rows = next(size for size in range(int(n**0.5), n + 1) if size * size >= n and size > 0)
    columns = (n + rows - 1) // rows
    found = np.array(positions, np.int64)
    missing = np.ones(len(found), bool)
    while missing.any():
        found[missing] = _mixed(found[missing], rows, columns, seed, epoch)
        missing = found >= n
    return found


def _mixed(numbers: Integers, rows: int, columns: int, seed: int, epoch: int) -> Integers:
    row, column = numbers // columns, numbers % columns
    for part in range(0, _ROUNDS, 2):
        row = (row + below(rows, seed, stream(EPOCH_ORDER, epoch, part), column)) % rows
        column = (column + below(columns, seed, stream(EPOCH_ORDER, epoch, part + 1), row)) % columns
    return row * columns + column


def by_blocks(drawn: Integers, begins: Integers, seed: int, epoch: int, replicas: int) -> Integers:
    """The draw at each position of an epoch whose frames are read in blocks, int64[n].

    drawn: the frame of each draw. begins: the first frame of each block, and the number of frames.
    """
    blocks: list[list[int]] = [[] for _ in begins[1:]]
    for draw in sorted(range(len(drawn)), key=lambda draw: (int(drawn[draw]), draw)):
        blocks[int(np.searchsorted(begins, drawn[draw], side="right")) - 1].append(draw)
    line: list[int] = []
    for number in ordered(np.arange(len(blocks)), len(blocks), seed, epoch).tolist():
        members = blocks[number]
        if members:
            within = _WITHIN_BLOCKS + (epoch * len(begins) + number) % _WITHIN_BLOCKS
            line += [members[place] for place in ordered(np.arange(len(members)), len(members), seed, within).tolist()]
    each = len(line) // replicas
    runs = [line[replica * each : (replica + 1) * each] for replica in range(replicas)]
    dealt = [runs[replica][step] for step in range(each) for replica in range(replicas)]
    return np.array(dealt + line[replicas * each :], np.int64)


def samples_of_rank(n: int, replicas: int, batch: int) -> int:
    """Samples of a rank in an epoch of n: equally many on all; a last batch of one sample is left out."""
    each = n // replicas
    return each - (each % batch == 1)


def steps_of_epoch(n: int, replicas: int, batch: int) -> int:
    """Optimiser steps of an epoch."""
    return (samples_of_rank(n, replicas, batch) + batch - 1) // batch


def positions_of_step(step: int, n: int, replica: int, replicas: int, batch: int) -> Integers:
    """Positions in the epoch of a replica's samples in a step, int64; replicas take positions in turn."""
    last = min((step + 1) * batch, samples_of_rank(n, replicas, batch))
    return np.array([sample * replicas + replica for sample in range(step * batch, last)], np.int64)
