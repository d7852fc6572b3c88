"""Convolution, batch norm by known moments, a sum and a ReLU in one kernel: bitwise equal to separate operations."""

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import pytest
import torch
from sampled_parameters import slow
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from hpcai.kernels.conv2d import Shape
from hpcai.kernels.cpu import epilogue
from hpcai.kernels.operators import convolution, fused_evaluation, products

pytestmark = pytest.mark.slow

LAYERS = {
    "product of matrices": Shape(3, 64, 9, 9, 80, (1, 1)),
    "product of many steps": Shape(2, 600, 5, 4, 48, (1, 1)),
    "tiles that slide": Shape(3, 64, 14, 15, 64, (3, 3), (1, 1), (1, 1)),
    "every second pixel": Shape(3, 32, 15, 15, 48, (3, 3), (2, 2), (1, 1)),
    "few channels": Shape(2, 3, 20, 20, 64, (7, 7), (2, 2), (3, 3)),
    "many channels": Shape(2, 512, 5, 5, 544, (3, 3), (1, 1), (1, 1)),
    "odd channels": Shape(2, 17, 9, 8, 16, (3, 3), (1, 1), (1, 1)),
    "nothing but borders": Shape(1, 16, 1, 1, 16, (3, 3), (1, 1), (1, 1)),
}
custom_ops: Any = torch.ops.hpcai


def layers(shape: Shape, dtype: torch.dtype) -> tuple[nn.Conv2d, nn.BatchNorm2d, Tensor, Tensor]:
    """A convolution and its batch norm in evaluation mode, images, and the added tensor."""
    generator = torch.Generator().manual_seed(4)
    part = nn.Conv2d(shape.channels, shape.filters, shape.kernel, shape.stride, shape.padding, bias=False)
    norm = nn.BatchNorm2d(shape.filters)
    with torch.no_grad():
        for each in (part.weight, norm.weight, norm.bias, norm.running_mean, norm.running_var):
            assert each is not None
            each.copy_(torch.randn(each.shape, generator=generator))
    norm.running_var = norm.running_var.abs() if norm.running_var is not None else None
    x, other = (torch.randn(size, generator=generator).to(dtype) for size in (shape.x, shape.y))
    wide: Any = torch.channels_last
    return (
        part.to(dtype).eval(), norm.to(dtype).eval(), x.contiguous(memory_format=wide),
        other.contiguous(memory_format=wide),
    )


@pytest.fixture(params=slow([1, 3], [1, 2, 3]), ids="{} threads".format)
def threads(request: pytest.FixtureRequest) -> Any:
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield request.param
    torch.set_num_threads(before)


@pytest.mark.parametrize("added", [False, True], ids=["alone", "added"])
@pytest.mark.parametrize("relu", [False, True], ids=["plain", "relu"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("name", LAYERS)
@torch.inference_mode()
def test_the_fused_kernel_equals_separate_operations_bit_by_bit(
    name: str, dtype: torch.dtype, relu: bool, added: bool, threads: int
) -> None:
    part, norm, x, more = layers(LAYERS[name], dtype)
    other = more if added else None
    found = fused_evaluation.convolution_normalised(part, x, norm, other, relu)
    known = (norm.weight, norm.bias, norm.running_mean, norm.running_var, norm.eps)
    y = convolution(x, part.weight, part)
    right = custom_ops.batch_norm_known(y, other, *known, relu)
    if name == "product of many steps" and threads > 1:  # without an epilogue threads share the steps of the sums
        torch.testing.assert_close(found, right, rtol=1e4 * torch.finfo(dtype).eps, atol=1e4 * torch.finfo(dtype).eps)
    else:
        assert torch.equal(found, right)
    assert found.is_contiguous(memory_format=torch.channels_last)


@pytest.mark.parametrize("name", LAYERS)
@torch.inference_mode()
def test_the_fused_kernel_agrees_with_the_definition(name: str) -> None:
    """In fp64, by torch's own layers; a wrong moment, shift, sum or ReLU would differ by far more."""
    part, norm, x, other = layers(LAYERS[name], torch.float64)
    found = fused_evaluation.convolution_normalised(part, x, norm, other, True)
    torch.testing.assert_close(found, torch.relu(norm(part(x)) + other), rtol=1e-11, atol=1e-11)


@torch.inference_mode()
def test_nan_is_preserved() -> None:
    part, norm, x, other = layers(LAYERS["tiles that slide"], torch.float32)
    other[0, 5, 3, 2] = float("nan")
    found = fused_evaluation.convolution_normalised(part, x, norm, other, True)
    assert found.isnan().nonzero().tolist() == [[0, 5, 3, 2]]


# --- applicability


REFUSED: dict[str, Callable[[nn.Conv2d], object]] = {
    "training": lambda part: part.train(),
    "groups": lambda part: setattr(part, "groups", 2),
    "an offset": lambda part: setattr(part, "bias", nn.Parameter(torch.zeros(64))),
    "another type": lambda part: part.double(),
    "channels that are no vectors": lambda part: setattr(part, "out_channels", 65),
}


@pytest.mark.parametrize("why", [*REFUSED, "gradients", "autocast", "a site's kernel"])
def test_the_fused_kernel_does_not_apply(why: str) -> None:
    part, norm, x, _ = layers(LAYERS["tiles that slide"], torch.float32)
    with torch.inference_mode():
        assert fused_evaluation.applies(part, x) and fused_evaluation.fits(norm, x, None)
    REFUSED.get(why, id)(part)
    around: Any = {
        "autocast": torch.autocast("cpu", torch.bfloat16), "a site's kernel": products.replaced({"convolve": print})
    }.get(why, nullcontext())
    with around, nullcontext() if why == "gradients" else torch.inference_mode():
        assert not fused_evaluation.applies(part, x)


# --- as an operator of torch


def arguments(dtype: torch.dtype = torch.float32) -> list[Any]:
    part, norm, x, other = layers(LAYERS["every second pixel"], dtype)
    vectors = [norm.weight.detach(), norm.bias.detach(), norm.running_mean, norm.running_var]
    return [x, part.weight.detach(), other, *vectors, norm.eps, True, part.stride, part.padding, part.dilation, 1]


def test_the_operator_passes_torchs_checks() -> None:
    checks = ("test_schema", "test_faketensor")
    torch.library.opcheck(custom_ops.convolution_normalised, tuple(arguments()), test_utils=checks)


@torch.inference_mode()
def test_the_counted_operations_are_those_of_the_convolution() -> None:
    shape = LAYERS["every second pixel"]
    with FlopCounterMode(display=False) as counter:
        custom_ops.convolution_normalised(*arguments())
    assert counter.get_total_flops() == 2 * shape.batch * 48 * 8 * 8 * 32 * 9


@pytest.mark.parametrize(("place", "value"), [(2, torch.zeros(2, 48, 8, 7)), (3, torch.zeros(47)), (-1, 2)])
def test_unsuitable_arguments_are_refused_with_the_allowed_ones(place: int, value: Any) -> None:
    given = arguments()
    given[place] = value
    if place == -1:
        given[1] = given[1][:, :16].contiguous()
    with pytest.raises(RuntimeError, match="convolution and batch norm of .*; allowed: "):
        custom_ops.convolution_normalised(*given)


@pytest.mark.parametrize("filters", [48, 47])
def test_moments_of_another_type_and_parts_of_vectors_are_refused(filters: int) -> None:
    """They would be read and written beyond their ends."""
    shape = replace(LAYERS["every second pixel"], filters=filters)
    part, norm, x, _ = layers(shape, torch.float32)
    kind = torch.float64 if filters == 48 else torch.float32
    known = [each.detach().to(kind) for each in (norm.weight, norm.bias, norm.running_mean, norm.running_var)]
    window = (part.stride, part.padding, part.dilation, 1)
    with torch.inference_mode(), pytest.raises(RuntimeError, match="allowed: of one type, filters in whole vectors"):
        custom_ops.convolution_normalised(x, part.weight, None, *known, norm.eps, True, *window)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="NO GPU: ITS EPILOGUE NOT RUN")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", LAYERS)
@torch.inference_mode()
def test_on_a_gpu_the_result_agrees_with_the_definition(name: str, dtype: torch.dtype) -> None:
    part, norm, x, other = layers(replace(LAYERS[name], batch=2), torch.float32)
    x, other = (each[:2].to("cuda", dtype) for each in (x, other))
    part, norm = part.to("cuda", dtype), norm.cuda()
    exact = torch.relu(norm.double()(part.double()(x.double())) + other.double())
    part, norm = part.to(dtype), norm.float()
    found = fused_evaluation.convolution_normalised(part, x, norm, other, True)
    unit = {torch.float32: 2.0**-10, torch.float16: 2.0**-10, torch.bfloat16: 2.0**-7}[dtype]  # fp32 may be tf32
    assert ((found.double() - exact).abs() <= 16 * unit * (1 + exact.abs().max())).all()


def test_a_lost_sum_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    genuine = epilogue.batch_norm
    monkeypatch.setattr(epilogue, "batch_norm", lambda one, table, channels, _, relu: genuine(
        one, table, channels, None, relu
    ))
    with pytest.raises(AssertionError):
        test_the_fused_kernel_agrees_with_the_definition("tiles that slide")
