"""Batch normalisation with the following operations: every element against float64, and as an operator of torch."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from sampled_parameters import one_in
from torch import Tensor
from torch.nn import functional

from hpcai.kernels.arrays import aligned
from hpcai.kernels.batch_norm import SPEC, Shape, numba_cpu, reference
from hpcai.kernels.batch_norm.cpu.passes import BLOCK
from hpcai.kernels.cpu.simd import lanes
from hpcai.kernels.operators import direct, normalisation

EPS = 1e-5
SIZES = [(1000, 16), (777, 80), (3, 64), (1, 32), (9000, 48)]
ops: Any = torch.ops.hpcai


def drawn(pixels: int, channels: int, kind: str) -> list[Any]:
    """x, the added tensor, g; weight and bias: channels far from 0, with different spreads."""
    generator = np.random.default_rng(pixels)
    x, other, g = (generator.standard_normal((pixels, channels)) for _ in range(3))
    weight, bias = generator.standard_normal((2, channels))
    return [aligned(each.astype(kind)) for each in (3 * x + 5 * bias, other, g, weight, bias)]


def address(array: Any) -> int:
    return 0 if array is None else int(array.ctypes.data)


@pytest.mark.parametrize("added", [False, True], ids=["alone", "added"])
@pytest.mark.parametrize("relu", [False, True], ids=["plain", "relu"])
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("kind", one_in(2, ["float32", "float64"]))
@pytest.mark.parametrize(("pixels", "channels"), SIZES)
def test_batch_norm_is_exact_to_rounding(
    pixels: int, channels: int, kind: str, threads: int, relu: bool, added: bool
) -> None:
    x, other, g, weight, bias = drawn(pixels, channels, kind)
    other = other if added else None
    y, dx, dother = (np.full_like(x, np.nan) for _ in range(3))
    mean, variance, dweight, dbias = (np.full_like(weight, np.nan) for _ in range(4))
    layer = numba_cpu.Layer(pixels, channels, *map(address, (weight, bias, mean, variance)), EPS)
    one = x.dtype.type(1)
    numba_cpu.forward(layer, one, address(x), address(other), address(y), relu, threads)
    dother_address = address(dother) if added and relu else 0
    arrays = map(address, (g, x, y, dx))
    numba_cpu.backward(layer, one, *arrays, dother_address, address(dweight), address(dbias), relu, threads)

    # NumPy adds up along an axis one by one: in fp64 that is no better than the tested kernel.
    doubles: Any = [None if each is None else each.astype(np.longdouble) for each in (x, other, weight, bias)]
    right = reference.forward(*doubles, EPS, relu)
    gradients = reference.backward(g.astype(np.longdouble), *doubles, EPS, relu)
    unit, root = np.finfo(kind).eps / 2, np.sqrt(right[2] + EPS)
    at_zero = np.abs(right[0]) < 1e3 * unit if relu else np.zeros(x.shape, bool)  # there the ReLUs may differ
    scale = 1 + np.abs(doubles[0]).max() / root  # mean and x are rounded, and then multiplied by 1 / root
    assert (np.abs(y - right[0]) <= 16 * unit * scale * (1 + np.abs(doubles[2]))).all()
    # Sums grow by the distance of the first pixel, up to 4 deviations; rounding of each is a step of a random walk.
    alike = pixels if kind == "float64" else min(pixels, BLOCK // weight.nbytes)  # added in that type
    walk = 2 * np.sqrt(alike)
    assert (np.abs(mean - right[1]) <= unit * (walk * 4 * root + 8 * np.abs(right[1]))).all()
    assert (np.abs(variance - right[2]) <= 64 * unit * (1 + right[2])).all()
    slack = 64 * unit * np.sqrt(pixels) * scale * (1 + np.abs(g).max()) + at_zero.sum(axis=0) * np.abs(g).max()
    assert (np.abs(dweight - gradients.weight) <= slack * 4).all()
    assert (np.abs(dbias - gradients.bias) <= slack).all()
    if not at_zero.any():
        assert (np.abs(dx - gradients.x) <= 64 * unit * scale**2 * np.abs(doubles[2] / root) * 8 + 1e-30).all()
    if dother_address and not at_zero.any():
        assert np.array_equal(dother, gradients.other)


def images(dtype: torch.dtype = torch.float64, channels: int = 16) -> list[Tensor]:
    generator = torch.Generator().manual_seed(3)
    x, other = (torch.randn(2, channels, 3, 5, generator=generator).to(dtype) for _ in range(2))
    weight, bias = (torch.randn(channels, generator=generator).to(dtype) for _ in range(2))
    return [each.requires_grad_() for each in (x, other, weight, bias)]


@pytest.mark.slow
@pytest.mark.parametrize("relu", [False, True], ids=["plain", "relu"])
@pytest.mark.parametrize("added", [False, True], ids=["alone", "added"])
def test_gradients_are_those_of_the_function(relu: bool, added: bool) -> None:
    x, other, weight, bias = images()

    def first(x: Tensor, other: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        y: Tensor = ops.batch_norm(x, other if added else None, weight, bias, EPS, relu)[0]
        return y

    assert torch.autograd.gradcheck(first, (x, other, weight, bias))


@pytest.mark.parametrize("relu", [False, True], ids=["plain", "relu"])
def test_batch_norm_equals_torchs(relu: bool) -> None:
    x, other, weight, bias = images()
    y, mean, variance = ops.batch_norm(x, other, weight, bias, EPS, relu)
    right = functional.batch_norm(x, None, None, weight, bias, training=True, eps=EPS) + other
    torch.testing.assert_close(y, torch.relu(right) if relu else right)
    torch.testing.assert_close(variance, x.var((0, 2, 3), correction=0))
    known = ops.batch_norm_known(x, None, weight, bias, mean + 1, variance * 2, EPS, relu)
    right = functional.batch_norm(x, mean + 1, variance * 2, weight, bias, eps=EPS)
    torch.testing.assert_close(known, torch.relu(right) if relu else right)


@pytest.mark.parametrize("relu", [False, True], ids=["plain", "relu"])
def test_running_moments_move_as_torchs(relu: bool) -> None:
    x, other, weight, bias = images()
    own, torchs = ((torch.zeros_like(bias), torch.ones_like(bias)) for _ in range(2))
    for _ in range(2):
        y = direct.batch_norm(x, other, weight, bias, EPS, relu, (*own, 0.1))
        right = functional.batch_norm(x, *torchs, weight, bias, training=True, eps=EPS) + other
        torch.testing.assert_close(y, torch.relu(right) if relu else right)
    torch.testing.assert_close(own, torchs)
    apart = torch.zeros(2 * len(bias), dtype=x.dtype)[::2]
    with pytest.raises(RuntimeError, match="side by side"):
        direct.batch_norm(x, other, weight, bias, EPS, relu, (apart, own[1], 0.1))


def test_nan_is_preserved() -> None:
    x, other, weight, bias = (each.detach() for each in images())
    x[0, 3, 1, 2] = torch.nan
    y = ops.batch_norm(x, other, weight, bias, EPS, True)[0]
    assert y[:, 3].isnan().all() and not y[:, 4].isnan().any()


@pytest.mark.slow
def test_the_operator_passes_torchs_checks_and_is_compiled() -> None:
    inputs = (*images(torch.float32), EPS, True)
    torch.library.opcheck(ops.batch_norm.default, inputs)
    compiled: Any = torch.compile(lambda *given: ops.batch_norm(*given)[0] * 2, fullgraph=True, backend="aot_eager")
    assert torch.equal(compiled(*inputs), 2 * ops.batch_norm(*inputs)[0])


def test_only_whole_vectors_of_known_types_apply_and_sizes_are_checked() -> None:
    whole = lanes(4)
    weight = torch.ones(whole)
    assert normalisation.applies(torch.ones(1, whole, 2, 2), weight)
    assert not normalisation.applies(torch.ones(1, whole + 1, 2, 2), torch.ones(whole + 1))
    assert not normalisation.applies(torch.ones(1, whole, 2, 2).bfloat16(), weight)
    with pytest.raises(RuntimeError, match="and a number a channel"):
        ops.batch_norm(torch.ones(1, whole, 2, 2), None, torch.ones(whole + 1), weight, EPS, False)


WHOLE = lanes(4)
UNFIT = {
    "parts of vectors": (torch.ones(2, WHOLE + 1, 3, 3), None),
    "no images": (torch.ones(0, WHOLE, 3, 3), None),
    "no pixels": (torch.ones(2, WHOLE, 0, 3), None),
    "three dimensions": (torch.ones(2, WHOLE, 3), None),
    "16 bits": (torch.ones(2, WHOLE, 3, 3, dtype=torch.float16), None),
    "another of one pixel": (torch.ones(2, WHOLE, 3, 3), torch.ones(1, WHOLE, 1, 1)),
    "another type": (torch.ones(2, WHOLE, 3, 3), torch.ones(2, WHOLE, 3, 3, dtype=torch.float64)),
}


@pytest.mark.parametrize("why", UNFIT)
def test_tensors_that_would_be_accessed_beyond_their_end_are_refused(why: str) -> None:
    x, other = UNFIT[why]
    vectors = [torch.ones(x.shape[1], dtype=x.dtype)] * 4
    calls: list[Callable[[], Any]] = [
        lambda: ops.batch_norm(x, other, *vectors[:2], EPS, True),
        lambda: ops.batch_norm_known(x, other, *vectors, EPS, True),
        lambda: ops.batch_norm_backward(x if other is None else other, x, None, *vectors, EPS, True),
    ]
    for call in calls:
        with pytest.raises(RuntimeError, match="batch norm of .*; allowed: "):
            call()


def test_operations_and_bytes_by_hand() -> None:
    shape = Shape(10, 16, added=True)
    assert SPEC.operations(shape) == (1 + 3 + 1 + 2 + 1 + 1) * 160
    assert SPEC.nbytes(shape) == 4 * (2 + 1 + 1) * 160
