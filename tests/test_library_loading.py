"""Pieces of loading and compiling, which the ranks of a node do in different orders."""

import pytest

from hpcai.preflight.library_loading import _ordered
from hpcai.preflight.preconditions import Piece

PIECES: list[Piece] = [lambda number=number: number for number in range(7)]  # type: ignore[misc]


def order(rank: int, ranks: int) -> list[object]:
    return [piece() for piece in _ordered(PIECES, rank, ranks)]


@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 9, 64])
def test_every_rank_does_every_piece_once(ranks: int) -> None:
    assert all(sorted(order(rank, ranks), key=str) == [*range(7)] for rank in range(ranks))


def test_two_ranks_begin_at_opposite_ends() -> None:
    assert order(0, 2) == [0, 1, 2, 3, 4, 5, 6] and order(1, 2) == [6, 5, 4, 3, 2, 1, 0]


def test_of_more_ranks_each_pair_begins_elsewhere() -> None:
    assert [order(rank, 4)[0] for rank in range(4)] == [0, 6, 3, 2]
