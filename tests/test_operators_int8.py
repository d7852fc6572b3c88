"""int8 operators: exact forward, straight-through backward, torch's checks and compiler, and detected faults."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from hpcai.kernels import conv2d, gemm, operators
from hpcai.kernels.arithmetic import INT8
from hpcai.kernels.check import check_layer
from hpcai.kernels.operators import library, on_cpu, products
from hpcai.kernels.quantise.reference import seen
from hpcai.kernels.residual import ELEMENTWISE_LIMIT
from hpcai.kernels.spec import DIRECTIONS, FORWARD, INPUT_GRADIENT, WEIGHT_GRADIENT, Tensors

pytestmark = pytest.mark.slow

Shape = conv2d.Shape
LAYERS = [
    Shape(2, 8, 7, 6, 18, (3, 3), (1, 1), (1, 1)),
    Shape(3, 4, 7, 6, 6, (3, 2), (2, 1), (1, 0), (1, 2), 2),
    Shape(2, 3, 9, 9, 4, (1, 1), (2, 2)),
    Shape(2, 6, 5, 4, 6, (3, 3), (1, 1), (1, 1), (1, 1), 6),  # depth-wise
]
GEMM = gemm.Shape(7, 37, 19)
LARGER = Shape(4, 24, 9, 9, 20, (3, 3), (1, 1), (1, 1))
custom_ops: Any = torch.ops.hpcai


def operands(shape: Any) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(5)
    x, w = (torch.randn(size, generator=generator).requires_grad_() for size in (shape.x, shape.w))
    return x, w


def as_bytes(x: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
    """The quantised operands, in fp64."""
    found = seen(Tensors(x.detach().numpy(), w.detach().numpy(), np.float32(0)))
    return torch.from_numpy(found.x).requires_grad_(), torch.from_numpy(found.w).requires_grad_()


def vendor(x: Tensor, w: Tensor, shape: Shape) -> Tensor:
    return torch.nn.functional.conv2d(x, w, None, shape.stride, shape.padding, shape.dilation, shape.groups)


def three(compute: Callable[..., Tensor], x: Tensor, w: Tensor, *rest: Any) -> list[Tensor]:
    y = compute(x, w, *rest)
    g = torch.randn(y.shape, generator=torch.Generator().manual_seed(6)).to(y.dtype)
    return [y, *torch.autograd.grad(y, (x, w), g)]


@pytest.mark.parametrize("custom", [(), DIRECTIONS, (INPUT_GRADIENT,), (WEIGHT_GRADIENT,)], ids=str)
@pytest.mark.parametrize("shape", LAYERS, ids=str)
def test_all_three_products_are_those_of_the_quantised_operands(shape: Shape, custom: tuple[str, ...]) -> None:
    """Straight through: no derivative but that of the product in fp64, with respect to the rounded operands."""
    x, w = operands(shape)
    exact = three(vendor, *as_bytes(x, w), shape)
    for own, right in zip(three(operators.convolution_int8, x, w, shape, custom), exact, strict=True):
        assert own.dtype == torch.float32
        torch.testing.assert_close(own.double(), right, rtol=1e-5, atol=1e-5)
    plain = three(vendor, x, w, shape)
    assert all((one - other).abs().max() > 1e-3 for one, other in zip(plain, exact, strict=True))


@pytest.mark.parametrize("custom", [(), DIRECTIONS], ids=str)
def test_matrix_products_are_those_of_the_quantised_operands(custom: tuple[str, ...]) -> None:
    x, w = operands(GEMM)
    exact = three(torch.nn.functional.linear, *as_bytes(x, w))
    for own, right in zip(three(operators.dense_int8, x, w, custom), exact, strict=True):
        torch.testing.assert_close(own.double(), right, rtol=1e-5, atol=1e-5)
    parts = operators.dense_int8(x.reshape(7, 1, 37), w)
    assert torch.equal(parts.reshape(7, 19), operators.dense_int8(x, w))


def test_an_images_results_do_not_depend_on_the_batch() -> None:
    """Each image has a scale of its own: neither the batch nor its division over ranks changes its results."""
    x, w = (each.detach() for each in operands(LAYERS[0]))
    x[1] *= 1000
    both = operators.convolution_int8(x, w, LAYERS[0])
    assert torch.equal(operators.convolution_int8(x[:1], w, LAYERS[0]), both[:1])


def test_channels_of_zeros_give_zeros_and_have_gradients() -> None:
    x, w = operands(LAYERS[0])
    with torch.no_grad():
        x[0] = 0.0
        w[3] = 0.0
    y, dx, dw = three(operators.convolution_int8, x, w, LAYERS[0])
    assert not y[0].any() and not y[:, 3].any()
    assert dw[3].any() and dx[0].any()


def test_any_layout_is_accepted_and_results_are_channels_last() -> None:
    shape = LAYERS[0]
    x, w = operands(shape)
    transposed = torch.empty(6, 8, 2, 7).permute(2, 1, 3, 0).copy_(x.detach()).requires_grad_()
    wide = torch.empty(18, 8, 3, 6)[..., ::2].copy_(w.detach()).requires_grad_()
    found = three(operators.convolution_int8, transposed, wide, shape)
    assert torch.equal(found[0], operators.convolution_int8(x, w, shape))
    assert found[0].is_contiguous(memory_format=torch.channels_last)


def test_the_operators_pass_torchs_checks() -> None:
    every = library.bits(DIRECTIONS)
    for shape in LAYERS[:2]:
        window = (shape.stride, shape.padding, shape.dilation, shape.groups)
        # torch would compare with the true derivative, which is 0 nearly everywhere: the function has steps.
        tests = ("test_schema", "test_faketensor", "test_autograd_registration")
        torch.library.opcheck(custom_ops.convolution_int8.default, (*operands(shape), *window, every), test_utils=tests)
    torch.library.opcheck(custom_ops.dense_int8.default, (*operands(GEMM), every), test_utils=tests)
    torch.library.opcheck(custom_ops.nearest.default, (torch.randn(2, 3, 4, 5), torch.rand(2)), test_utils=tests)


def test_the_operators_are_compiled_as_one_graph() -> None:
    shape = LAYERS[0]

    def layer(x: Tensor, w: Tensor) -> Tensor:
        return torch.relu(operators.convolution_int8(x, w, shape))

    compiled: Any = torch.compile(layer, fullgraph=True, backend="aot_eager")
    x, w = operands(shape)
    for own, right in zip(three(compiled, x, w), three(layer, x, w), strict=True):
        assert torch.equal(own, right)


@pytest.mark.parametrize("custom", [(), DIRECTIONS], ids=str)
def test_torchs_counter_counts_the_declared_operations(custom: tuple[str, ...]) -> None:
    for shape in LAYERS:
        if shape.groups > 1 and not custom:
            continue  # torch's own count of gradients does not divide by the groups
        with FlopCounterMode(display=False) as counter:
            operators.convolution_int8(*operands(shape), shape, custom).sum().backward()
        assert counter.get_total_flops() == 3 * conv2d.operations(shape)
    with FlopCounterMode(display=False) as counter:
        operators.dense_int8(*operands(GEMM), custom).sum().backward()
    assert counter.get_total_flops() == 3 * gemm.operations(GEMM)


def test_unsuitable_arguments_are_refused() -> None:
    x, w = (each.detach() for each in operands(LAYERS[0]))
    with pytest.raises(RuntimeError, match=r"int8 products of torch.float64 .*; allowed: torch.float32"):
        operators.convolution_int8(x.double(), w.double(), LAYERS[0])
    with pytest.raises(RuntimeError, match="int8 products of 200000 terms; allowed: at most 133144"):
        operators.dense_int8(torch.ones(1, 200000), torch.ones(1, 200000))
    with pytest.raises(RuntimeError, match=r"allowed: \(m, k\) and \(k, n\)"):
        operators.dense_int8(torch.ones(2, 3), torch.ones(4, 5))


@pytest.mark.parametrize("custom", [(), DIRECTIONS], ids=str)
@pytest.mark.parametrize("shape", [*LAYERS, LARGER, GEMM], ids=str)
def test_the_check_passes_right_operators(shape: Any, custom: tuple[str, ...]) -> None:
    found = check_layer(shape, "cpu", 1, DIRECTIONS, INT8, custom)
    assert [item.direction for item in found] == list(DIRECTIONS)
    for item in found:
        assert item.wrong == 0 and item.elementwise < ELEMENTWISE_LIMIT and item.scaled < 16


def scale_of_the_next_filter(y: Tensor, of_x: Tensor, of_w: Tensor) -> Tensor:
    return y / of_w.view(1, -1, 1, 1) * of_w.roll(1).view(1, -1, 1, 1)


def one_scale_for_all(y: Tensor, of_x: Tensor, of_w: Tensor) -> Tensor:
    return y / of_x.view(-1, 1, 1, 1) * of_x.max()


def a_unit_too_much(y: Tensor, of_x: Tensor, of_w: Tensor) -> Tensor:
    wrong = y.clone()
    wrong[0, 0, 0, 0] += of_x[0] * of_w[0]
    return wrong


def cut_off(y: Tensor, of_x: Tensor, of_w: Tensor) -> Tensor:
    units = (of_x[:, None] * of_w)[:, :, None, None]
    return (y / units).clamp(-(2**15), 2**15 - 1) * units


@pytest.mark.parametrize("fault", [scale_of_the_next_filter, one_scale_for_all, a_unit_too_much, cut_off])
def test_wrong_scales_and_sums_are_detected(fault: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    true = on_cpu.convolve_bytes

    def faulty(x: Tensor, w: Tensor, shape: Shape) -> Any:
        y, *scales = true(x, w, shape)
        return fault(y, *scales), *scales

    monkeypatch.setattr(on_cpu, "convolve_bytes", faulty)
    (found,) = check_layer(LARGER, "cpu", 1, (FORWARD,), INT8)
    assert found.wrong > 0


def test_a_dropped_channel_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    true = on_cpu.numba_cpu.forward_bytes

    def faulty(x: Any, w: Any, *rest: Any) -> None:
        w[..., -1] = 0
        true(x, w, *rest)

    monkeypatch.setattr(on_cpu.numba_cpu, "forward_bytes", faulty)
    (found,) = check_layer(LARGER, "cpu", 1, (FORWARD,), INT8)
    assert found.wrong > 100 and found.elementwise > ELEMENTWISE_LIMIT


@pytest.mark.parametrize("direction", [INPUT_GRADIENT, WEIGHT_GRADIENT])
def test_gradients_of_unrounded_operands_are_detected(direction: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert products.nearest  # the operands of gradients
    monkeypatch.setattr(on_cpu, "nearest", lambda x, scales: x.clone())
    (found,) = check_layer(LARGER, "cpu", 1, (direction,), INT8)
    assert found.elementwise > ELEMENTWISE_LIMIT and found.wrong == 0


def test_results_on_a_gpu_are_those_on_a_cpu() -> None:
    if not torch.cuda.is_available():
        pytest.skip("NO GPU: PRODUCTS OF BYTES NOT RUN THERE")
    for shape in (*LAYERS, LARGER):
        for item in check_layer(shape, "cuda", 1, arithmetic=INT8):
            assert item.wrong == 0 and item.elementwise < ELEMENTWISE_LIMIT, shape
    assert all(item.wrong == 0 for item in check_layer(GEMM, "cuda", 1, arithmetic=INT8))


@pytest.mark.parametrize(
    ("kind", "scales"),
    [(torch.float16, torch.ones(2)), (torch.float32, torch.ones(1)), (torch.float32, torch.ones(2).double())],
)
def test_scales_that_would_be_read_beyond_their_end_are_refused(kind: torch.dtype, scales: torch.Tensor) -> None:
    with pytest.raises(RuntimeError, match="allowed: float32, 2 scales"):
        torch.ops.hpcai.nearest(torch.ones(2, 4, 3, 3, dtype=kind), scales)


def test_negative_padding_is_refused() -> None:
    x, w = torch.ones(2, 16, 8, 8), torch.ones(16, 16, 3, 3)
    with pytest.raises(RuntimeError, match="allowed: 0 and more"):
        torch.ops.hpcai.convolution_int8(x, w, [1, 1], [-1, -1], [1, 1], 1, 7)
