"""Sizes of tiles, and the workspace of a thread: packed operands of a head, tiles of scores, sums.

A tile is QUERIES x KEYS scores, whole micro-kernel tiles in both directions whether they are rows or transposed. A tile
of scores, one of their gradients, and the packed rows that they belong to fit into an L2 cache of 1 MB together.
"""

from functools import cache
from math import lcm
from typing import Any, NamedTuple

from ...cpu.blocking import LINE
from ...cpu.compiled import compiled
from ...cpu.packing import Matrix, pack_rows, pack_slivers, transposed
from ...cpu.simd import ROWS, VECTORS, lanes

FP32 = 4  # bytes
WIDTH = VECTORS * lanes(FP32)
KEYS = lcm(ROWS, WIDTH) * max(1, 224 // lcm(ROWS, WIDTH))
QUERIES = 4 * ROWS
assert KEYS % QUERIES == 0


class Heads(NamedTuple):
    """Rows of an array [batch, heads, places, features]: address and bytes between samples, heads and places.

    The numbers of a row are contiguous.
    """

    address: int
    sample: int
    head: int
    place: int


class Tile(NamedTuple):
    """Queries and keys of a tile: the first ones and their numbers; the last key is seen by the last query."""

    first: int
    queries: int
    key: int
    keys: int


class Layout(NamedTuple):
    """A head's sizes, bytes between rows, and byte offsets of the parts of the workspace.

    row_pitch: of packed rows and sums; tile_pitch: of tiles. Packed: queries and gradients (of the output) as rows;
    keys and values as columns (`_across`) and as steps; queries and gradients as steps. Then the tiles, the sums of
    queries, keys and values, and two numbers a place.
    """

    heads: int
    places: int
    features: int
    row_pitch: int
    tile_pitch: int
    queries: int
    gradients: int
    keys_across: int
    values_across: int
    keys: int
    values: int
    query_steps: int
    gradient_steps: int
    scores: int
    score_gradients: int
    sums: int
    key_sums: int
    value_sums: int
    statistics: int
    nbytes: int


@cache
def layout(heads: int, places: int, features: int, backward: bool) -> Layout:
    """The workspace of a pass; parts that it does not need have no bytes."""
    row_pitch, tile_pitch = features * FP32 + LINE, (KEYS + WIDTH // VECTORS) * FP32
    rows = _up(places, ROWS) * row_pitch
    across, slivers, tile = _up(places, WIDTH) * features * FP32, places * features * FP32, QUERIES * tile_pitch
    sums = _up(places, ROWS) * row_pitch if backward else QUERIES * row_pitch
    key_sums, twice = KEYS * row_pitch * backward, backward
    parts = (
        *(rows, rows * twice, across, across * twice, slivers * twice, slivers * (not twice)),
        *(slivers * twice, slivers * twice, tile, tile * twice, sums, key_sums, key_sums, 2 * places * FP32),
    )
    offsets = [0]
    for nbytes in parts:
        offsets.append(offsets[-1] + _up(nbytes, LINE))
    return Layout._make((heads, places, features, row_pitch, tile_pitch, *offsets[:-1], offsets[-1] + LINE))


def _up(count: int, unit: int) -> int:
    return -(-count // unit) * unit


@compiled
def head_of(array: Any, number: Any, sizes: Any) -> Any:
    """Address of the first row of head `number` of all samples, and bytes between places; sizes: with their `heads`."""
    return array.address + number // sizes.heads * array.sample + number % sizes.heads * array.head, array.place


@compiled
def pack_as_rows(one: Any, target: Any, head: Any, layout: Any) -> None:
    """Pack the rows of a head, padded with zeros to whole tiles."""
    matrix = Matrix(head[0], layout.places, layout.features, head[1], FP32)
    pack_rows(one, target, layout.row_pitch, matrix, (layout.places + ROWS - 1) // ROWS * ROWS)


@compiled
def pack_as_steps(one: Any, target: Any, head: Any, layout: Any) -> None:
    """Pack the rows of a head as slivers: a place is a step."""
    matrix = Matrix(head[0], layout.places, layout.features, head[1], FP32)
    pack_slivers(one, target, WIDTH, matrix, layout.places)


@compiled
def pack_across(one: Any, target: Any, head: Any, layout: Any) -> None:
    """Pack the rows of a head as slivers of their transpose: a place is a column."""
    matrix = Matrix(head[0], layout.places, layout.features, head[1], FP32)
    pack_slivers(one, target, WIDTH, transposed(matrix), layout.features)
