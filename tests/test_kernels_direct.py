"""Convolutions by tiles that slide along rows: which layers use them, and their memory accesses."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from hpcai.kernels.arrays import aligned
from hpcai.kernels.conv2d import Shape, numba_cpu
from hpcai.kernels.conv2d.cpu.direct import LEAST_OUTPUTS, fits_direct, plan_direct
from hpcai.kernels.conv2d.cpu.direct import _tiles as tiles_of_a_row
from hpcai.kernels.conv2d.cpu.direct_microkernel import HEIGHTS
from hpcai.kernels.conv2d.cpu.geometry import (
    Correlation,
    array_layout,
    forward_correlations,
    input_gradient_correlations,
)
from hpcai.kernels.conv2d.cpu.implicit_gemm import plan_implicit_gemm
from hpcai.kernels.conv2d.cpu.row_buffer import buffer_nbytes, row_buffer
from hpcai.kernels.conv2d.reference import forward
from hpcai.kernels.cpu.simd import HOST, LINE

UNIT = 2.0**-24
FEW = Shape(2, 16, 6, 2 * LEAST_OUTPUTS + 3, 32, (3, 3), (1, 1), (1, 1))


def arrays(shape: Shape) -> list[Any]:
    """x, w and y, their channels last, with room for any alignment."""
    draw, sizes = np.random.default_rng(5), (shape.x, shape.w, shape.y)
    return [aligned(draw.standard_normal(size, np.float32).transpose(0, 2, 3, 1)) for size in sizes]


def works(shape: Shape) -> Iterator[Correlation]:
    return forward_correlations(*map(array_layout, arrays(shape)), shape)


@pytest.mark.parametrize(
    ("change", "so"),
    [
        ({}, True),
        ({"channels": 20}, False),  # part of a line
        ({"filters": HOST.nbytes // 4 * 3 // 2}, False),  # part of a vector
        ({"width": LEAST_OUTPUTS - 1}, False),  # no room for a tile
        ({"channels": 512, "filters": 512}, False),  # more weights than fit the cache
        ({"stride": (2, 2), "width": 4 * LEAST_OUTPUTS}, True),
        ({"kernel": (1, 1), "padding": (0, 0), "stride": (2, 2), "width": 4 * LEAST_OUTPUTS}, True),
    ],
    ids=str,
)
def test_layers_of_few_channels_are_computed_directly(change: dict[str, Any], so: bool) -> None:
    (work,) = works(replace(FEW, **change))
    assert fits_direct(work, 4) == so


def test_phases_that_no_tap_reaches_are_not_computed_directly() -> None:
    shape = replace(FEW, kernel=(1, 1), padding=(0, 0), stride=(2, 2), width=4 * LEAST_OUTPUTS)
    x, w, y = map(array_layout, arrays(shape))
    assert [fits_direct(work, 4) for work in input_gradient_correlations(y, w, x, shape)] == [True, False, False, False]


def test_a_row_buffer_has_the_pixels_of_a_row_of_outputs() -> None:
    (work,) = works(replace(FEW, stride=(2, 2), kernel=(3, 5), padding=(1, 2), width=30))
    buffer = row_buffer(0, work, 4)
    assert (buffer.rows, buffer.first, buffer.pixels) == (
        3,
        -1,
        15 + 2,
    )  # every other pixel, one before and one behind
    assert buffer_nbytes(buffer) == 3 * 2 * 17 * LINE


@pytest.mark.parametrize("vectors", HEIGHTS)
def test_tiles_fill_a_row_and_compute_as_few_pixels_twice_as_one_height(vectors: int) -> None:
    for outputs in range(LEAST_OUTPUTS, 130):
        tiles = tiles_of_a_row(vectors, outputs)
        heights = [tiles.height - (place >= tiles.full) for place in range(tiles.number)]
        assert set(heights) <= set(HEIGHTS[vectors]) and max(heights) <= outputs <= sum(heights)
        alike = (-(-outputs // height) * height for height in HEIGHTS[vectors] if height <= outputs)
        assert sum(heights) <= min(alike)


def test_rows_of_usual_networks_are_divided_without_overlap() -> None:
    """With 16 registers 14 pixels are 5, 5 and 4; with 32 they are one tile."""
    for outputs in (14, 16, 28, 32, 56, 112):
        tiles = tiles_of_a_row(2, outputs)
        assert tiles.number * (tiles.height - 1) + tiles.full == outputs


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("filters", [16, 32, 48])
@pytest.mark.parametrize("width", sorted({LEAST_OUTPUTS, *HEIGHTS[1], 14, 2 * LEAST_OUTPUTS + 5, 28}))
def test_pixels_outside_of_the_target_are_not_written(width: int, filters: int, threads: int) -> None:
    shape = replace(FEW, width=width, filters=filters)
    x, w, _ = arrays(shape)
    around = np.full((shape.batch, shape.y[2] + 2, shape.y[3] + 2, filters + 16), 7, np.float32)
    y = around[:, 1:-1, 1:-1, 8:-8]
    numba_cpu.forward(x, w, y, shape, threads)
    _assert_exact(y, x, w, shape)
    y[...] = 7
    assert (around == 7).all()


def test_the_direct_convolution_agrees_with_implicit_gemm() -> None:
    x, w, y = arrays(FEW)
    found = []
    for way in (plan_direct, plan_implicit_gemm):
        y[...] = np.nan
        (work,) = forward_correlations(*map(array_layout, (x, w, y)), FEW)
        way(work, np.float32(1), 1)(0, 0, 0)
        found.append(y.copy())
    assert np.abs(found[0] - found[1]).max() <= 2e-5 < np.abs(found[0]).max()


def _assert_exact(y: Any, x: Any, w: Any, shape: Shape) -> None:
    """Every element against float64."""
    images, weights, outputs = (each.transpose(0, 3, 1, 2) for each in (x, w, y))
    for block in forward(images, weights, outputs, shape):
        slack = 8 * np.sqrt(len(block.R)) * UNIT * np.sqrt((block.L**2) @ (block.R**2))
        assert (np.abs(block.C - block.L @ block.R) <= slack).all()
