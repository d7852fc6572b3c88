"""Backward pass of attention on a CPU: probabilities are computed again from the scores and the rows' logarithms."""

from typing import Any

from ...cpu.compiled import compiled
from ...cpu.load_store import bytes_of, read, write
from ...cpu.parallel import parallel_for
from .forward import seen_by_block
from .layout import KEYS, QUERIES, Tile, head_of, pack_across, pack_as_rows, pack_as_steps
from .products import add_transposed, add_weighted, scores_of_tile
from .rows import dot_run, gradient_row, scale_run


@compiled
def backward(kernels: Any, one: Any, scales: Any, count: Any, given: Any, made: Any, log_sums: Any, layout: Any,
             memory: Any, threads: Any) -> None:
    """Gradients of `count` heads; given: queries, keys, values, output, its gradient; made: of the first three.

    scales: of the scores, and the same for base 2.
    """
    parallel_for(_heads, threads, (kernels, one, scales, count, given, made, log_sums, layout, memory, threads))


@compiled
def _heads(thread: Any, kernels: Any, one: Any, scales: Any, count: Any, given: Any, made: Any, log_sums: Any,
           layout: Any, memory: Any, threads: Any) -> None:
    own = memory + thread * layout.nbytes
    for number in range(thread, count, threads):
        queries, keys, values, out, gradient = given
        _pack(one, head_of(queries, number, layout), own + layout.queries, own + layout.query_steps, layout)
        _pack(one, head_of(gradient, number, layout), own + layout.gradients, own + layout.gradient_steps, layout)
        pack_across(one, own + layout.keys_across, head_of(keys, number, layout), layout)
        pack_across(one, own + layout.values_across, head_of(values, number, layout), layout)
        pack_as_steps(one, own + layout.keys, head_of(keys, number, layout), layout)
        _means(one, head_of(out, number, layout), layout, own)
        of_queries, of_keys, of_values = made
        for key in range(0, layout.places, KEYS):
            _keys(kernels, one, scales, key, log_sums + number * layout.places * bytes_of(one), layout, own)
            rows = min(KEYS, layout.places - key)
            _store(one, own + layout.key_sums, head_of(of_keys, number, layout), key, rows, layout)
            _store(one, own + layout.value_sums, head_of(of_values, number, layout), key, rows, layout)
        _store(one, own + layout.sums, head_of(of_queries, number, layout), 0, layout.places, layout)


@compiled
def _pack(one: Any, head: Any, rows: Any, steps: Any, layout: Any) -> None:
    """Pack an operand as rows and as steps."""
    pack_as_rows(one, rows, head, layout)
    pack_as_steps(one, steps, head, layout)


@compiled
def _means(one: Any, out: Any, layout: Any, own: Any) -> None:
    """Sum of the products of each row's output and its gradient: the mean of the gradients of its probabilities."""
    for row in range(layout.places):
        gradient = own + layout.gradients + row * layout.row_pitch
        mean = dot_run(one, out[0] + row * out[1], gradient, layout.features)
        write(mean, own + layout.statistics + row * bytes_of(one))


@compiled
def _keys(kernels: Any, one: Any, scales: Any, key: Any, log_sums: Any, layout: Any, own: Any) -> None:
    """All queries that see some of the keys of a tile."""
    scores, gradients, (scale, scale_of_2) = own + layout.scores, own + layout.score_gradients, scales
    for first in range(key, layout.places, QUERIES):
        count = min(QUERIES, layout.places - first)
        tile = Tile(first, count, key, min(KEYS, first + count - key))
        scores_of_tile(kernels, scale_of_2, tile, own + layout.queries, own + layout.keys_across, scores, layout)
        scores_of_tile(kernels, one, tile, own + layout.gradients, own + layout.values_across, gradients, layout)
        _probabilities(one, tile, scores, gradients, log_sums, layout, own)
        sums = own + layout.sums + first * layout.row_pitch
        add_weighted(kernels, scale, tile, gradients, own + layout.keys, sums, key > 0, layout)
        add_transposed(kernels, one, tile, scores, own + layout.gradient_steps, own + layout.value_sums, layout)
        add_transposed(kernels, scale, tile, gradients, own + layout.query_steps, own + layout.key_sums, layout)


@compiled
def _probabilities(one: Any, tile: Any, scores: Any, gradients: Any, log_sums: Any, layout: Any, own: Any) -> None:
    for row in range(tile.queries):
        visible, at = min(tile.keys, tile.first + row + 1 - tile.key), (tile.first + row) * bytes_of(one)
        log_sum, mean = read(one, log_sums + at), read(one, own + layout.statistics + at)
        here = row * layout.tile_pitch
        gradient_row(one, scores + here, gradients + here, visible, seen_by_block(tile, row), log_sum, mean)


@compiled
def _store(one: Any, source: Any, head: Any, first: Any, count: Any, layout: Any) -> None:
    """Store sums as rows of a result."""
    for row in range(count):
        scale_run(one, head[0] + (first + row) * head[1], source + row * layout.row_pitch, layout.features)
