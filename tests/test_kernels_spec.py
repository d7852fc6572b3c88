"""Declarations of the kernels: sizes, operations, bytes, terms and tolerance, against numbers computed by hand."""

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from hpcai.kernels import conv2d, gemm
from hpcai.kernels.arithmetic import UNIT_ROUNDOFF_FP32
from hpcai.kernels.spec import DIRECTIONS

STEM = conv2d.Shape(1, 3, 224, 224, 64, (7, 7), (2, 2), (3, 3))


def test_the_resnet_stem_by_hand():
    assert STEM.y == (1, 64, 112, 112)
    assert conv2d.SPEC.operations(STEM) == 2 * 49 * 3 * 112 * 112 * 64 == 236_027_904
    assert conv2d.SPEC.nbytes(STEM) == 4 * (3 * 224 * 224 + 64 * 3 * 49 + 64 * 112 * 112)
    # Every input pixel is read by 4 of the 7 taps of a stride-2 kernel in each direction.
    assert [STEM.inner(direction) for direction in DIRECTIONS] == [147, 64 * 16, 112 * 112]


def test_a_dense_layer_by_hand():
    shape = gemm.Shape(batch=5, features=7, outputs=3)
    assert (shape.x, shape.w, shape.y) == ((5, 7), (3, 7), (5, 3))
    assert gemm.SPEC.operations(shape) == 210
    assert gemm.SPEC.nbytes(shape) == 4 * (35 + 21 + 15)
    assert [shape.inner(direction) for direction in DIRECTIONS] == [7, 3, 5]


@pytest.mark.parametrize(
    "shape",
    [
        STEM,
        conv2d.Shape(2, 6, 11, 9, 4, (3, 2), (2, 1), (0, 1), (1, 3), 2),
        conv2d.Shape(1, 8, 7, 7, 8, (3, 3), groups=8),
    ],
)
def test_sizes_and_operations_are_torchs(shape):
    layer = torch.nn.Conv2d(
        shape.channels,
        shape.filters,
        shape.kernel,
        shape.stride,
        shape.padding,
        shape.dilation,
        shape.groups,
        bias=False,
    )
    assert tuple(layer.weight.shape) == shape.w
    with FlopCounterMode(display=False) as counter:
        y = layer(torch.zeros(shape.x))
    assert tuple(y.shape) == shape.y
    assert counter.get_total_flops() == conv2d.SPEC.operations(shape)


def test_tolerance_by_hand():
    assert torch.finfo(torch.float32).eps / 2 == UNIT_ROUNDOFF_FP32
    for spec in (gemm.SPEC, conv2d.SPEC):
        assert spec.tolerance(2048) == 8.0 * 2048**0.5 * 2.0**-24


@pytest.mark.parametrize(
    ("arguments", "what"),
    [((1, 4, 8, 8, 6, (3, 3), (1, 1), (1, 1), (1, 1), 4), "groups"), ((1, 4, 2, 8, 6, (3, 3)), "empty")],
)
def test_impossible_layers_are_refused(arguments, what):
    with pytest.raises(ValueError, match=what):
        conv2d.Shape(*arguments)
