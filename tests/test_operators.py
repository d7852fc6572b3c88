"""The custom operators of torch: gradients, types, layouts, torch.compile, torch's counter, and refused arguments."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from hpcai.kernels import conv2d, operators
from hpcai.kernels.operators import library, products
from hpcai.kernels.spec import DIRECTIONS, FORWARD, INPUT_GRADIENT, WEIGHT_GRADIENT

pytestmark = pytest.mark.slow

Shape = conv2d.Shape
LAYERS = [
    Shape(2, 4, 7, 6, 6, (3, 3), (1, 1), (1, 1)),
    Shape(2, 4, 7, 6, 6, (3, 2), (2, 1), (1, 0), (1, 2), 2),
    Shape(1, 3, 5, 5, 4, (1, 1)),
    Shape(2, 6, 5, 4, 6, (3, 3), (1, 1), (1, 1), (1, 1), 6),  # depth-wise
]
TYPES = {torch.float64: 2.0**-53, torch.float32: 2.0**-24, torch.bfloat16: 2.0**-8, torch.float16: 2.0**-11}
custom_ops: Any = torch.ops.hpcai


def operands(shape: Any, dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(5)
    x, w = (torch.randn(size, generator=generator).to(dtype).requires_grad_() for size in (shape.x, shape.w))
    return x, w


def vendor(x: Tensor, w: Tensor, shape: Shape) -> Tensor:
    return torch.nn.functional.conv2d(x, w, None, shape.stride, shape.padding, shape.dilation, shape.groups)


def three(compute: Callable[..., Tensor], x: Tensor, w: Tensor, *rest: Any) -> list[Tensor]:
    y = compute(x, w, *rest)
    g = torch.randn(y.shape, generator=torch.Generator().manual_seed(6)).bfloat16()  # exact in every type
    g = g.to(torch.float16).to(y.dtype)
    return [y, *torch.autograd.grad(y, (x, w), g)]


@pytest.mark.parametrize("shape", LAYERS, ids=str)
def test_gradients_are_those_of_the_function(shape: Shape) -> None:
    assert torch.autograd.gradcheck(lambda x, w: operators.convolution(x, w, shape), operands(shape))


def test_gradients_of_products_are_those_of_the_function() -> None:
    x = torch.randn(2, 3, 5, dtype=torch.float64, requires_grad=True)
    w = torch.randn(4, 5, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(operators.dense, (x, w))


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("shape", [*LAYERS, Shape(2, 64, 9, 11, 40, (3, 3), (2, 2), (1, 1))], ids=str)
def test_results_equal_the_vendors_up_to_rounding(shape: Shape, dtype: torch.dtype) -> None:
    """Against torch's in fp64 on the same operands: sums in fp32 or fp64, and the rounding of the result."""
    x, w = operands(shape, dtype)
    exact = three(vendor, x.detach().double().requires_grad_(), w.detach().double().requires_grad_(), shape)
    found = three(operators.convolution, x, w, shape)
    unit = TYPES[dtype]
    for direction, own, right in zip(DIRECTIONS, found, exact, strict=True):
        inner = shape.inner(direction)
        sums = 8 * math.sqrt(inner) * min(unit, 2.0**-24) * math.sqrt(inner) * 4  # operands are below 4
        assert own.dtype == dtype and own.shape == right.shape
        assert ((own.double() - right).abs() <= sums + 2 * unit * right.abs()).all(), direction


def test_any_layout_is_accepted_and_results_are_channels_last() -> None:
    shape = Shape(2, 5, 7, 6, 4, (3, 3), (1, 1), (1, 1))
    x, w = operands(shape)
    transposed = torch.empty(6, 5, 2, 7, dtype=x.dtype).permute(2, 1, 3, 0).copy_(x.detach()).requires_grad_()
    wide = torch.empty(4, 5, 3, 6, dtype=w.dtype)[..., ::2].copy_(w.detach()).requires_grad_()
    found = three(operators.convolution, transposed, wide, shape)
    for own, right in zip(found, three(vendor, x, w, shape), strict=True):
        torch.testing.assert_close(own, right)
    assert found[0].is_contiguous(memory_format=torch.channels_last)


def test_views_with_the_negative_bit_are_resolved() -> None:
    shape = Shape(2, 5, 7, 6, 4, (3, 3), (1, 1), (1, 1))
    x, w = (each.detach() for each in operands(shape))
    negative = [torch._neg_view(-each) for each in (x, w)]
    assert all(each.is_neg() for each in negative)
    right = operators.convolution(x, w, shape)
    for one, other in ((negative[0], w), (x, negative[1])):
        torch.testing.assert_close(operators.convolution(one, other, shape), right, rtol=0, atol=0)
    torch.testing.assert_close(operators.dense(torch._neg_view(-x[0, 0]), x[1, 1]), x[0, 0] @ x[1, 1].t())
    w.requires_grad_()
    found = [torch.autograd.grad(operators.convolution(x, w, shape), w, g)[0] for g in (right, torch._neg_view(-right))]
    torch.testing.assert_close(*found, rtol=0, atol=0)


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The directions that the custom kernels compute, in their order."""
    directions: list[str] = []
    true = products._convolved

    def noted(direction: str, *rest: Any) -> Tensor:
        directions.append(direction)
        return true(direction, *rest)

    monkeypatch.setattr(products, "_convolved", noted)
    return directions


@pytest.mark.parametrize("wanted", [(True, False), (False, True)], ids=str)
def test_only_required_gradients_are_computed(wanted: tuple[bool, bool], made: list[str]) -> None:
    x, w = (each.requires_grad_(want) for each, want in zip(operands(LAYERS[0]), wanted, strict=True))
    operators.convolution(x, w, LAYERS[0]).sum().backward()
    assert made == [FORWARD, INPUT_GRADIENT if wanted[0] else WEIGHT_GRADIENT]


@pytest.mark.parametrize("custom", [(), (FORWARD,), (INPUT_GRADIENT,), (WEIGHT_GRADIENT,), DIRECTIONS], ids=str)
def test_directions_that_are_not_custom_are_torchs(custom: tuple[str, ...], made: list[str]) -> None:
    x, w = operands(LAYERS[1])
    found = three(operators.convolution, x, w, LAYERS[1], custom)
    assert made == list(custom)
    for own, right in zip(found, three(vendor, x, w, LAYERS[1]), strict=True):
        torch.testing.assert_close(own, right)


@pytest.mark.parametrize("custom", [(), DIRECTIONS], ids=str)
def test_matrix_products_equal_torchs(custom: tuple[str, ...]) -> None:
    x = torch.randn(6, 5, dtype=torch.float64, requires_grad=True)
    w = torch.randn(4, 5, dtype=torch.float64, requires_grad=True)
    for own, right in zip(three(operators.dense, x, w, custom), three(torch.nn.functional.linear, x, w), strict=True):
        torch.testing.assert_close(own, right)


@pytest.mark.parametrize("shape", LAYERS[:2], ids=str)
def test_the_operators_pass_torchs_checks(shape: Shape) -> None:
    window = (shape.stride, shape.padding, shape.dilation, shape.groups)
    every = library.bits(DIRECTIONS)
    torch.library.opcheck(custom_ops.convolution.default, (*operands(shape, torch.float32), *window, every))
    torch.library.opcheck(custom_ops.dense.default, (torch.randn(3, 5), torch.randn(4, 5), every))


@pytest.mark.parametrize("kind", [torch.bfloat16, torch.float16], ids=str)
def test_autocast_casts_their_operands_and_gradients_keep_the_parameters_type(kind: torch.dtype) -> None:
    x, w = operands(LAYERS[0], torch.float32)
    with torch.autocast("cpu", dtype=kind):
        y, z = operators.convolution(x, w, LAYERS[0]), operators.dense(x.flatten(1), torch.ones(2, 168))
    assert (y.dtype, z.dtype) == (kind, kind)
    y.float().sum().backward()
    assert x.grad is not None and x.grad.dtype == torch.float32


def test_the_operators_are_compiled_as_one_graph() -> None:
    shape = LAYERS[0]
    x, w = operands(shape, torch.float32)

    def layer(x: Tensor, w: Tensor) -> Tensor:
        return torch.relu(operators.convolution(x, w, shape))

    compiled: Any = torch.compile(layer, fullgraph=True, backend="aot_eager")
    for own, right in zip(three(compiled, x, w), three(layer, x, w), strict=True):
        assert torch.equal(own, right)


@pytest.mark.parametrize("shape", LAYERS, ids=str)
def test_torchs_counter_counts_the_declared_operations(shape: Shape) -> None:
    with FlopCounterMode(display=False) as counter:
        operators.convolution(*operands(shape), shape).sum().backward()
    assert counter.get_total_flops() == 3 * conv2d.operations(shape)
    x, w = torch.randn(6, 5, requires_grad=True), torch.randn(4, 5, requires_grad=True)
    with FlopCounterMode(display=False) as counter:
        operators.dense(x, w).sum().backward()
    assert counter.get_total_flops() == 3 * 2 * 6 * 5 * 4


def test_unsuitable_arguments_are_refused() -> None:
    shape = LAYERS[0]
    x, w = (each.detach() for each in operands(shape))
    window = (shape.stride, shape.padding, shape.dilation)
    with pytest.raises(RuntimeError, match=r"by weights \(6, 4, 3, 3\) in 2 groups; allowed: \(6, 2, 3, 3\)"):
        custom_ops.convolution(x, w, *window, 2, library.bits(DIRECTIONS))
    for changed in ({"stride": (0, 1)}, {"dilation": (1, 0)}, {"dilation": (-1, -1)}, {"groups": 0}, {"batch": 0}):
        with pytest.raises(ValueError, match="allowed: numbers from 1, padding excepted"):
            replace(shape, **changed)
    with pytest.raises(RuntimeError, match="allowed: numbers from 1"):
        custom_ops.convolution(x, w, (0, 1), *window[1:], 2, library.bits(DIRECTIONS))
    with pytest.raises(RuntimeError, match="of one type, on one device"):
        operators.convolution(x, w.float(), shape)
    with pytest.raises(RuntimeError, match=r"allowed: \(m, k\) and \(k, n\)"):
        operators.dense(torch.ones(2, 3), torch.ones(4, 5))
    with pytest.raises(RuntimeError, match="input_gradient of a convolution of"):
        custom_ops.convolution_input(torch.ones(2, 6, 6, 6).double(), w, shape.x, *window, 1)
    with pytest.raises(RuntimeError, match=r"products of torch.int64 on a CPU; allowed: torch.float32"):
        operators.dense(torch.ones(2, 3, dtype=torch.int64), torch.ones(4, 3, dtype=torch.int64))
