"""Convolutions in groups that divide or fill vectors: layers, tiles and taps, memory accesses, and planted faults."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from provider_results import results_of

from hpcai.kernels.check import check, draw
from hpcai.kernels.conv2d import Shape, numba_cpu
from hpcai.kernels.conv2d.cpu import grouped_plan, grouped_weight_gradient, whole_group_microkernel
from hpcai.kernels.conv2d.cpu.geometry import Axis, forward_axis, gradient_phases
from hpcai.kernels.conv2d.cpu.grouped_gradient_microkernel import widths
from hpcai.kernels.conv2d.cpu.grouped_microkernel import GROUPS, SUMS, heights
from hpcai.kernels.conv2d.cpu.grouped_plan import applies, taps_inside
from hpcai.kernels.conv2d.cpu.runs import Run, runs, tiles, tiles_by_rows
from hpcai.kernels.cpu.simd import HOST
from hpcai.kernels.residual import ELEMENTWISE_LIMIT
from hpcai.kernels.spec import DIRECTIONS, FORWARD, INPUT_GRADIENT, WEIGHT_GRADIENT

LANES = HOST.nbytes // 4
DEPTH_WISE = Shape(2, 3 * LANES, 9, 15, 3 * LANES, (3, 3), (1, 1), (1, 1), (1, 1), 3 * LANES)
OF_FOUR = replace(DEPTH_WISE, groups=3 * LANES // 4)
OF_A_VECTOR = replace(DEPTH_WISE, groups=3)
OF_TWO_VECTORS = replace(DEPTH_WISE, channels=4 * LANES, filters=4 * LANES, groups=2)
DILATED = replace(DEPTH_WISE, dilation=(2, 2), padding=(2, 2))
SHAPES = {"depth-wise": DEPTH_WISE, "dilated": DILATED, "of four": OF_FOUR, "of a vector": OF_A_VECTOR}
SHAPES |= {"of two vectors": OF_TWO_VECTORS}


@pytest.mark.parametrize(
    ("change", "so"),
    [
        ({}, True),
        ({"groups": 3 * LANES // 4}, True),
        ({"groups": 3}, True),  # a group is a vector
        ({"channels": 6 * LANES, "filters": 6 * LANES, "groups": 3}, True),  # two vectors
        ({"channels": 9 * LANES, "filters": 9 * LANES, "groups": 3}, False),  # three
        ({"groups": 1}, False),
        ({"filters": 6 * LANES}, False),
        ({"channels": LANES - 1, "filters": LANES - 1, "groups": LANES - 1}, False),
        ({"channels": 24 * LANES, "filters": 24 * LANES, "groups": 8 * LANES}, False),  # three channels a group
    ],
    ids=str,
)
def test_groups_that_divide_or_fill_vectors_are_computed_together(change: dict[str, Any], so: bool) -> None:
    assert applies(replace(DEPTH_WISE, **change), 4) == so


@pytest.mark.parametrize("group", GROUPS)
def test_sums_of_tiles_fit_the_registers_or_are_those_of_one_pixel(group: int) -> None:
    for vectors in (1, 2) if group == 1 else (1,):
        assert all(height * vectors * group <= SUMS for height in heights(vectors, group)[:-1])
        assert all(taps * vectors * group <= SUMS for taps in widths(vectors, group)[:-1])
        assert heights(vectors, group)[-1] == widths(vectors, group)[-1] == 1


@pytest.mark.parametrize("vectors", whole_group_microkernel.VECTORS)
def test_sums_of_whole_groups_fit_the_registers_and_hide_the_latency(vectors: int) -> None:
    for height in whole_group_microkernel.HEIGHTS:
        sums = height * vectors * whole_group_microkernel.sums_of_pixel(height, vectors)
        assert 8 <= sums <= whole_group_microkernel.SUMS <= HOST.count - 4


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("window", [((1, 1), (1, 1), (0, 0), (1, 1)), ((5, 5), (2, 2), (2, 2), (1, 1)),
                                    ((3, 2), (1, 3), (2, 0), (2, 1))], ids=str)  # fmt: skip
@pytest.mark.parametrize("kind", ["float32", "float64"])
@pytest.mark.parametrize("vectors", whole_group_microkernel.VECTORS)
def test_whole_groups_give_the_gradients_of_torch(vectors: int, kind: str, window: Any, direction: str) -> None:
    group = vectors * HOST.nbytes // np.dtype(kind).itemsize
    shape = Shape(3, 3 * group, 7, 10, 3 * group, *window, 3)
    x, w, g = (
        torch.randint(-4, 5, size).to(getattr(torch, kind)).requires_grad_() for size in (shape.x, shape.w, shape.y)
    )
    y = torch.conv2d(x, w, None, *window[1:], shape.groups)
    y.backward(g)
    expected = {FORWARD: y, INPUT_GRADIENT: x.grad, WEIGHT_GRADIENT: w.grad}[direction]
    one, other = {FORWARD: (x, w), INPUT_GRADIENT: (g, w), WEIGHT_GRADIENT: (x, g)}[direction]
    assert expected is not None
    result = np.full(expected.permute(0, 2, 3, 1).shape, np.nan, kind)
    operands = (each.detach().permute(0, 2, 3, 1).contiguous().numpy() for each in (one, other))
    getattr(numba_cpu, direction)(*operands, result, shape)
    assert np.array_equal(result, expected.detach().permute(0, 2, 3, 1).numpy())  # of small integers, exact


@pytest.mark.parametrize("allowed", [[6, 5, 3, 1], [3, 1], [1]], ids=str)
def test_tiles_cover_a_run_and_nothing_else(allowed: list[int]) -> None:
    for outputs in range(1, 130):
        found = [*tiles(Run(7, outputs, 0, 3), allowed)]
        covered = {place for first, height in found for place in range(first, first + height)}
        assert covered == set(range(7, 7 + outputs)) and {height for _, height in found} <= set(allowed)
        assert sum(height for _, height in found) <= outputs + 2


def axes() -> Iterator[Axis]:
    for taps, stride, padding, dilation in ((3, 1, 1, 1), (5, 2, 2, 1), (3, 2, 4, 3), (1, 2, 0, 1), (4, 3, 9, 2)):
        window = ((taps, taps), (stride, stride), (padding, padding), (dilation, dilation))
        shape = Shape(1, 8, 9, 9, 8, *window, 8)
        yield forward_axis(shape, 0)
        yield from (phase.axis for phase in gradient_phases(shape, 0))


@pytest.mark.parametrize("axis", [*axes()], ids=str)
def test_runs_see_exactly_the_taps_that_lie_in_the_image(axis: Axis) -> None:
    def inside(output: int) -> list[int]:
        starts = [(tap, output * axis.stride + axis.start + tap * axis.dilation) for tap in range(axis.taps)]
        return [tap for tap, place in starts if 0 <= place < axis.size]

    of_runs = [[*range(run.first_tap, run.first_tap + run.taps)] for run in runs(axis) for _ in range(run.outputs)]
    assert of_runs == [inside(output) for output in range(axis.outputs)]
    if axis.dilation > 0:
        pairs = [taps_inside(axis, output) for output in range(axis.outputs)]
        assert [[*range(first, first + taps)] if taps else [] for first, taps in pairs] == of_runs


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize(
    "shape", [*SHAPES.values(), replace(DEPTH_WISE, stride=(2, 2)), replace(OF_A_VECTOR, stride=(2, 2))], ids=str
)
def test_memory_around_results_is_not_written(shape: Shape, threads: int) -> None:
    data = draw(shape, 3)
    x, w, g = (np.ascontiguousarray(tensor.transpose(0, 2, 3, 1)) for tensor in data)
    for direction, like in ((FORWARD, g), (INPUT_GRADIENT, x)):
        around = np.full((len(like), *(size + 2 for size in like.shape[1:3]), like.shape[3] + 16), 7, np.float32)
        result = around[:, 1:-1, 1:-1, 8:-8]
        operand = x if direction == FORWARD else g
        getattr(numba_cpu, direction)(operand, w, result, shape, threads)
        alone = np.empty_like(like)
        getattr(numba_cpu, direction)(operand, w, alone, shape)
        assert np.array_equal(result, alone)
        result[...] = 7
        assert (around == 7).all()


def test_results_do_not_depend_on_threads_but_for_the_order_of_sums() -> None:
    for shape in SHAPES.values():
        data = draw(shape, 1)
        first = results_of(numba_cpu, data, shape, "cpu", DIRECTIONS, threads=2)
        for _ in range(20):
            again = results_of(numba_cpu, data, shape, "cpu", DIRECTIONS, threads=2)
            assert all(np.array_equal(first[direction], again[direction]) for direction in DIRECTIONS)


def without_the_last_tile(run: Run, allowed: Any, genuine: Any = tiles) -> list[tuple[int, int]]:
    return [*genuine(run, allowed)][:-1]


def a_tile_too_far_left(run: Run, allowed: Any, genuine: Any = tiles) -> list[tuple[int, int]]:
    *others, (first, height) = genuine(run, allowed)
    return [*others, (max(run.first, first - 1), height)]


def a_tap_less_at_borders(axis: Axis, genuine: Any = runs) -> list[Run]:
    return [run._replace(taps=max(1, run.taps - (run.outputs <= 2))) for run in genuine(axis)]


def taps_exchanged(*arguments: Any, genuine: Any = grouped_plan._entries) -> Iterator[int]:
    """The offset of each tap with the weight of the next one."""
    entries = [*genuine(*arguments)]
    taps = entries[1::2]
    yield from (word for pair in zip(entries[::2], taps[1:] + taps[:1], strict=True) for word in pair)


def a_piece_twice(*arguments: Any, genuine: Any = grouped_weight_gradient._pieces) -> Iterator[int]:
    words = [*genuine(*arguments)]
    yield from words + words[-grouped_weight_gradient.PIECE :]


def without_the_last_tile_by_rows(*arguments: Any, genuine: Any = tiles_by_rows) -> list[tuple[int, ...]]:
    return [*genuine(*arguments)][:-1]


def padding_read(*arguments: Any, genuine: Any = tiles_by_rows) -> list[tuple[int, ...]]:
    """Pixels left of the image count as inside."""
    return [(first, height, 0, high) for first, height, _, high in genuine(*arguments)]


def a_pixel_left_out(*arguments: Any, genuine: Any = tiles_by_rows) -> list[tuple[int, ...]]:
    return [(first, height, low, min(high, height)) for first, height, low, high in genuine(*arguments)]


FAULTS: list[tuple[Any, str, Callable[..., Any], set[str]]] = [
    (grouped_plan, "tiles", without_the_last_tile, {FORWARD, INPUT_GRADIENT}),
    (grouped_plan, "tiles", a_tile_too_far_left, {FORWARD, INPUT_GRADIENT}),
    (grouped_plan, "runs", a_tap_less_at_borders, {FORWARD, INPUT_GRADIENT}),
    (grouped_plan, "_entries", taps_exchanged, {FORWARD, INPUT_GRADIENT}),
    (grouped_weight_gradient, "runs", a_tap_less_at_borders, {WEIGHT_GRADIENT}),
    (grouped_weight_gradient, "_pieces", a_piece_twice, {WEIGHT_GRADIENT}),
]
FAULTS_BY_ROWS: list[tuple[Any, str, Callable[..., Any], set[str]]] = [
    (grouped_plan, "tiles_by_rows", fault, {FORWARD, INPUT_GRADIENT})
    for fault in (without_the_last_tile_by_rows, padding_read, a_pixel_left_out)
]
CASES = [(*fault, shape) for shape in SHAPES.values() if shape != DEPTH_WISE for fault in FAULTS]
CASES += [(*fault, DEPTH_WISE) for fault in (*FAULTS_BY_ROWS, *FAULTS[-2:])]
IDS = [f"{module.__name__.split('.')[-1]}-{fault.__name__}-{shape}" for module, _, fault, _, shape in CASES]


@pytest.mark.parametrize(("module", "name", "fault", "found_in", "shape"), CASES, ids=IDS)
def test_planted_faults_are_detected(
    module: Any, name: str, fault: Any, found_in: set[str], shape: Shape, monkeypatch: pytest.MonkeyPatch
) -> None:
    def wrong_directions() -> set[str]:
        numba_cpu.planned.cache_clear()
        found = check(shape, partial(results_of, numba_cpu, threads=2), "cpu", 7, DIRECTIONS)
        return {residuals.direction for residuals in found if not residuals.elementwise <= ELEMENTWISE_LIMIT}

    assert wrong_directions() == set()
    monkeypatch.setattr(module, name, fault)
    assert wrong_directions() == found_in
    numba_cpu.planned.cache_clear()
