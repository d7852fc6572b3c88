"""Forward pass of attention on a CPU: the heads are divided among the threads, and each is computed tile by tile."""

import math
from typing import Any

from ...cpu.compiled import compiled
from ...cpu.load_store import bytes_of, read, write
from ...cpu.parallel import parallel_for
from ...cpu.simd import ROWS
from .layout import KEYS, LINE, QUERIES, Tile, head_of, pack_across, pack_as_rows, pack_as_steps
from .products import add_weighted, scores_of_tile
from .rows import LOWEST, scale_run, softmax_row

VECTOR = LINE // 4  # numbers, at most, in a vector


@compiled
def forward(kernels: Any, one: Any, scale: Any, count: Any, arrays: Any, log_sums: Any, layout: Any, memory: Any,
            threads: Any) -> None:
    """Output and base-2 logarithms of the sums of `count` heads; arrays: queries, keys, values, output."""
    parallel_for(_heads, threads, (kernels, one, scale, count, arrays, log_sums, layout, memory, threads))


@compiled
def _heads(thread: Any, kernels: Any, one: Any, scale: Any, count: Any, arrays: Any, log_sums: Any, layout: Any,
           memory: Any, threads: Any) -> None:
    own = memory + thread * layout.nbytes
    for number in range(thread, count, threads):
        queries, keys, values, out = arrays
        pack_as_rows(one, own + layout.queries, head_of(queries, number, layout), layout)
        pack_across(one, own + layout.keys_across, head_of(keys, number, layout), layout)
        pack_as_steps(one, own + layout.values, head_of(values, number, layout), layout)
        kept = log_sums + number * layout.places * bytes_of(one)
        _head(kernels, one, scale, head_of(out, number, layout), kept, layout, own)


@compiled
def _head(kernels: Any, one: Any, scale: Any, out: Any, log_sums: Any, layout: Any, own: Any) -> None:
    for first in range(0, layout.places, QUERIES):
        count = min(QUERIES, layout.places - first)
        _begin(one, own + layout.statistics, count)
        for key in range(0, first + count, KEYS):
            tile = Tile(first, count, key, min(KEYS, first + count - key))
            scores, sums = own + layout.scores, own + layout.sums
            scores_of_tile(kernels, scale, tile, own + layout.queries, own + layout.keys_across, scores, layout)
            _softmax(one, tile, scores, sums, layout, own)
            add_weighted(kernels, one, tile, scores, own + layout.values, sums, key > 0, layout)
        _finish(one, first, count, out, log_sums, layout, own)


@compiled
def _begin(one: Any, statistics: Any, count: Any) -> None:
    """Maximum and sum of each row before its first tile."""
    size = bytes_of(one)
    for row in range(count):
        write(type(one)(LOWEST), statistics + 2 * row * size)
        write(one - one, statistics + (2 * row + 1) * size)


@compiled
def _softmax(one: Any, tile: Any, scores: Any, sums: Any, layout: Any, own: Any) -> None:
    """Powers of a tile, and the sums so far by the factor that a new maximum asks for."""
    for row in range(tile.queries):
        visible = min(tile.keys, tile.first + row + 1 - tile.key)
        at = scores + row * layout.tile_pitch
        kept = own + layout.statistics + 2 * row * bytes_of(one)
        factor = softmax_row(one, at, visible, seen_by_block(tile, row), kept)
        if tile.key > 0 and factor != one:
            sum_ = sums + row * layout.row_pitch
            scale_run(factor, sum_, sum_, layout.features)


@compiled
def seen_by_block(tile: Any, row: Any) -> Any:
    """Keys that the last row of the row's micro-kernel tile sees, in whole vectors."""
    last = min(row // ROWS * ROWS + ROWS, tile.queries)
    return (min(tile.keys, tile.first + last - tile.key) + VECTOR - 1) // VECTOR * VECTOR


@compiled
def _finish(one: Any, first: Any, count: Any, out: Any, log_sums: Any, layout: Any, own: Any) -> None:
    """Store the sums, divided by the sum of the powers, and its logarithm."""
    size = bytes_of(one)
    for row in range(count):
        statistics = own + layout.statistics + 2 * row * size
        total = read(one, statistics + size)
        source = own + layout.sums + row * layout.row_pitch
        scale_run(one / total, out[0] + (first + row) * out[1], source, layout.features)
        write(type(one)(read(one, statistics) + math.log2(total)), log_sums + (first + row) * size)
