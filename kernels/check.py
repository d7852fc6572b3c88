"""Residual checks of layers as training runs them: random data, three directions, every element against float64.

int8 layers take and return fp32. Their forward products are compared with those of the rounded operands, and must be
exact.
"""

from collections.abc import Callable, Collection
from functools import cache, partial
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from . import conv2d, operators
from .arithmetic import FP32, FP64, INT8, Arithmetic
from .arrays import rounded
from .conv2d import vendor as conv2d_vendor
from .layers import L, LayerShape, affordable, blocks_of, spec_of
from .quantise.reference import quantised, seen
from .residual import ELEMENTWISE_LIMIT, Residuals, measure
from .spec import DIRECTIONS, FORWARD, INPUT_GRADIENT, WEIGHT_GRADIENT, Float32, Tensors
from .tensors import LAYOUT

TRIAL = conv2d.Shape(2, 8, 8, 8, 8, (3, 3), (1, 1), (1, 1))

Layer: TypeAlias = Callable[[Tensor, Tensor, Any], Tensor]  # y of x, w and the shape, differentiable
# y, dx and dw by direction, from data, shape, device, directions and the stored type of results
Run: TypeAlias = Callable[..., dict[str, Float32]]
Slack: TypeAlias = Callable[[Any, str, str], float]  # of shape, device and direction


def check_layer(
    shape: LayerShape,
    device: str,
    seed: int,
    directions: Collection[str] = DIRECTIONS,
    arithmetic: Arithmetic = FP32,
    custom: Collection[str] = (),
) -> tuple[Residuals, ...]:
    """Residuals of a layer as training runs it, convolutions in channels_last, one entry a direction; see `check`.

    The directions in `custom` are computed by the custom kernels, the others by torch. Forward products of bytes are
    always custom.
    """
    layer = _layer(device, arithmetic, custom)
    direct = {FORWARD, *custom} if arithmetic is INT8 else set(custom)

    def slack(checked: LayerShape, device: str, direction: str) -> float:
        return 1.0 if direction in direct else vendor_slack(checked, device, direction)

    return check(shape, partial(by_autograd, layer=layer), device, seed, directions, arithmetic, slack)


def _layer(device: str, arithmetic: Arithmetic, custom: Collection[str]) -> Layer:
    if arithmetic is INT8:
        return lambda x, w, shape: _called(operators.convolution_int8, operators.dense_int8, x, w, shape, custom)
    if custom:
        return lambda x, w, shape: _called(operators.convolution, operators.dense, x, w, shape, custom)
    return lambda x, w, shape: by_vendor(x, w, shape, converts(device, arithmetic))


def _called(
    convolution: Callable[..., Tensor], dense: Callable[..., Tensor], x: Tensor, w: Tensor, shape: Any, custom: Any
) -> Tensor:
    return convolution(x, w, shape, custom) if isinstance(shape, conv2d.Shape) else dense(x, w, custom)


def by_vendor(x: Tensor, w: Tensor, shape: Any, converted: bool = False) -> Tensor:
    """A layer by torch; `converted` as in `conv2d.vendor.convolve`."""
    if isinstance(shape, conv2d.Shape):
        return conv2d_vendor.convolve(x, w, None, shape, converted)
    return functional.linear(x, w)


def vendor_slack(shape: LayerShape, device: str, direction: str = FORWARD) -> float:
    """Factor by which torch's algorithms may exceed the error of direct sums."""
    return conv2d_vendor.slack(shape, device) if isinstance(shape, conv2d.Shape) else 1.0


def by_autograd(
    data: Tensors,
    shape: LayerShape,
    device: str,
    directions: Collection[str],
    stored: str = FP32.stored,
    layer: Layer = by_vendor,
) -> dict[str, Float32]:
    """y, dx, dw by direction of a layer's forward and backward pass, from and to the type `stored`; fp32 on the host.

    tf32 and other switches are as the caller set them. torch allocates its results itself, so they cannot be poisoned
    beforehand: an element it never wrote holds what that memory held, zeros if it is fresh.
    """
    kind, layout = getattr(torch, stored), LAYOUT[len(shape.x)]
    x, w, g = (torch.from_numpy(tensor).to(device, kind, memory_format=layout) for tensor in data)
    x.requires_grad_(INPUT_GRADIENT in directions)
    w.requires_grad_(WEIGHT_GRADIENT in directions)
    with torch.enable_grad():
        y = layer(x, w, shape)
        if y.requires_grad:
            y.register_hook(lambda _: g)  # given to `backward`, it would load 0.8 s of torch's compiler
            y.sum().backward()
    results = {FORWARD: y, INPUT_GRADIENT: x.grad, WEIGHT_GRADIENT: w.grad}
    wanted = {name: tensor for name, tensor in results.items() if name in directions and tensor is not None}
    return {name: tensor.detach().float().cpu().numpy() for name, tensor in wanted.items()}


def _direct(shape: Any, device: str, direction: str) -> float:
    return 1.0


def check(
    shape: L,
    run: Run,
    device: str,
    seed: int,
    directions: Collection[str],
    arithmetic: Arithmetic = FP32,
    slack: Slack = _direct,
) -> tuple[Residuals, ...]:
    """One `Residuals` a direction, of every element that `run` computes from normal random data.

    The data are rounded to the type first, so that every product of two is exact in fp32 and only the sums are judged.
    The layer keeps its dimensions; only the batch is reduced where the float64 product would take too long
    (`Residuals.images` says to what). The data are a function of (shape checked, seed, type). The algorithms of a
    direction may exceed the error of direct sums `slack` times.
    """
    checked, is_int8 = affordable(shape), arithmetic is INT8
    numbers = FP32 if is_int8 else arithmetic
    data = draw(checked, seed, numbers)
    results = run(data, checked, device, directions, numbers.stored)
    exact = seen(data) if is_int8 else data

    def one(direction: str) -> Residuals:
        result = results[direction]
        assert result.shape == checked.result(direction), direction
        inner = checked.inner(direction)
        tolerance = slack(checked, device, direction) * spec_of(shape).tolerance(inner) * numbers.unit / FP32.unit
        values = measure(blocks_of(direction, exact, result, checked), inner, tolerance, seed, numbers)
        wrong = wrong_elements(data, result, checked) if is_int8 and direction == FORWARD else 0
        return Residuals(spec_of(shape).name, direction, shape, checked.batch, inner, *values, wrong)

    return tuple(one(direction) for direction in directions)


@cache
def converts(device: str, arithmetic: Arithmetic) -> bool:
    """Whether 16-bit convolutions must be computed in fp32, because torch does not accumulate in fp32 here.

    Found by trying, on a CPU only: there torch has 16-bit convolutions that round partial sums to 16 bits where the
    processor has no instructions for the type.
    """
    if device != "cpu" or not arithmetic.roundoff:
        return False
    found = check(TRIAL, by_autograd, device, 1, DIRECTIONS, arithmetic)
    return any(residuals.elementwise > ELEMENTWISE_LIMIT for residuals in found)


def draw(shape: LayerShape, seed: int, arithmetic: Arithmetic = FP32) -> Tensors:
    """x, w and g, standard normal, rounded to the type and held in fp32, or in fp64 if it is that."""
    generator = np.random.Generator(np.random.Philox(seed))
    held: Any = np.float64 if arithmetic == FP64 else np.float32
    x, w, g = (generator.standard_normal(size, dtype=held) for size in (shape.x, shape.w, shape.y))
    return Tensors(*(rounded(tensor, arithmetic) for tensor in (x, w, g)))


def wrong_elements(data: Tensors, y: Float32, shape: LayerShape) -> int:
    """Elements of y that differ in any bit from float32(sum of q_x q_w) * (scale of x * scale of w) in fp32."""
    (x, of_x), (w, of_w) = quantised(data.x), quantised(data.w)
    scales = np.multiply.outer(of_x, of_w).reshape(*y.shape[:2], *[1] * (y.ndim - 2))
    factors = np.broadcast_to(scales, y.shape)
    numbers = Tensors(x.astype(np.float32), w.astype(np.float32), data.g)
    pairs = zip(*(blocks_of(FORWARD, numbers, out, shape) for out in (y, factors)), strict=True)
    return sum(_wrong(part.L @ part.R, part.C, factor.C) for part, factor in pairs)


def _wrong(sums: Any, found: Any, factors: Any) -> int:
    """Number of wrong elements; integers below 2^53 and all of fp32 are exact in float64."""
    right = sums.astype(np.float32) * factors.astype(np.float32)
    return int(np.count_nonzero(found.astype(np.float32) != right))
