"""Depth-wise layers that are computed row by row of taps: all kinds of rows, of images of all widths."""

from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
from sampled_parameters import one_in

from hpcai.kernels.conv2d import Shape, numba_cpu
from hpcai.kernels.conv2d.cpu import grouped_plan
from hpcai.kernels.conv2d.cpu.depthwise_microkernel import HEIGHTS, KINDS
from hpcai.kernels.conv2d.cpu.geometry import Axis, array_layout
from hpcai.kernels.conv2d.cpu.runs import tiles_by_rows
from hpcai.kernels.cpu.simd import HOST

CHANNELS = 3 * HOST.nbytes // 4


def of_rows() -> Iterator[tuple[Shape, type]]:
    """Depth-wise layers of all kinds of rows of taps, of images down to one pixel, with all paddings."""
    for (taps, stride), width, kind in product(KINDS, (1, 2, 4, 7, 9, 17), (np.float32, np.float64)):
        for padding in {0, taps // 2, taps - 1}:
            if width + 2 * padding >= taps:
                window = (taps, taps), (stride, stride), (padding, padding), (1, 1)
                yield Shape(2, CHANNELS, max(taps, 5), width, CHANNELS, *window, CHANNELS), kind


@pytest.mark.parametrize(("shape", "kind"), one_in(7, of_rows()), ids=str)
def test_depth_wise_layers_by_rows_give_the_results_of_torch(shape: Shape, kind: Any) -> None:
    x, w, g = (torch.randint(-4, 5, size).to(torch.from_numpy(np.ones(1, kind)).dtype) for size in
               (shape.x, shape.w, shape.y))  # fmt: skip
    x.requires_grad_()
    y = torch.conv2d(x, w, None, shape.stride, shape.padding, shape.dilation, shape.groups)
    y.backward(g)
    last = [each.detach().permute(0, 2, 3, 1).contiguous().numpy() for each in (x, w, g)]
    layer = grouped_plan.forward_plan(*(array_layout(last[place]) for place in (0, 2)), shape).layer
    assert layer.by_rows and layer.vectors == 1
    for threads in (1, 3):
        made = [np.full_like(each, np.nan) for each in (last[2], last[0])]
        numba_cpu.forward(last[0], last[1], made[0], shape, threads)
        numba_cpu.input_gradient(last[2], last[1], made[1], shape, threads)
        for found, right in zip(made, (y, x.grad), strict=True):
            assert right is not None
            assert np.array_equal(found, right.detach().permute(0, 2, 3, 1).numpy())  # of small integers, exact


def test_tiles_by_rows_cover_every_output_once_and_know_what_is_inside() -> None:
    for outputs, stride, start, size in product((1, 5, 8, 9, 30), (1, 2), (-2, 0), (31, 70)):
        axis, covered = Axis(outputs, 3, stride, start, 1, size), []
        for first, height, low, high in tiles_by_rows(axis, HEIGHTS):
            covered += range(first, first + height)
            seen = [first * stride + start + place for place in range((height - 1) * stride + 3)]
            assert [0 <= each < size for each in seen] == [low <= place < high for place in range(len(seen))]
        assert covered == [*range(outputs)]
